/** The local stack could not be had; the message says what is missing, or shows the end of what the failed tool printed. */
export class StackError extends Error {
  override readonly name = 'StackError';
}
