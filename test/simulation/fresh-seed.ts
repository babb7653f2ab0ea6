/** Another one each time; HOLDFAST_SEED runs an earlier one again. */
export function freshSeed(): number {
  return Number(process.env.HOLDFAST_SEED ?? Math.floor(Math.random() * 2 ** 31));
}
