import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** The package as somebody else installs it: packed, in an empty project, with nothing beside it but what it says it needs. */
const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);

let folder: string;
let consumer: string;
let entries: readonly string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-package-'));
  consumer = join(folder, 'consumer');
  const modules = join(consumer, 'node_modules');
  await mkdir(modules, { recursive: true });
  await run('npm', ['pack', '--pack-destination', folder], { cwd: root });
  const tarball = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? 'none';
  await run('tar', ['-xzf', join(folder, tarball), '-C', modules]);
  await rename(join(modules, 'package'), join(modules, 'holdfast'));
  const { dependencies, peerDependencies, exports } = JSON.parse(await readFile(join(modules, 'holdfast', 'package.json'), 'utf8'));
  for (const name of Object.keys({ ...dependencies, ...peerDependencies })) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(root, 'node_modules', name), join(modules, name), 'dir');
  }
  await writeFile(join(consumer, 'package.json'), '{ "type": "module" }');
  entries = Object.keys(exports)
    .filter((name) => name !== './package.json')
    .map((name) => name.replace('.', 'holdfast'));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

async function runInConsumer(name: string, source: string): Promise<string> {
  await writeFile(join(consumer, name), source);
  return (await run(process.execPath, [name], { cwd: consumer, env: { ...process.env, CDK_VALIDATION: 'false' } })).stdout;
}

test('every entry point offers what its source does', async () => {
  expect(entries).toContain('holdfast/infra');
  const names = `Object.fromEntries(await Promise.all(${JSON.stringify(entries)}.map(async (entry) => [entry, Object.keys(await import(entry)).sort()])))`;
  const offered = JSON.parse(await runInConsumer('names.mjs', `console.log(JSON.stringify(${names}))`));
  for (const entry of entries) {
    const { default: _, ...source } = await import(
      join(root, entry.replace('holdfast', entry === 'holdfast/infra' ? '' : 'lib'), 'index.ts')
    );
    expect(offered[entry], entry).toEqual(Object.keys(source).sort());
  }
});

test('its types are read from another project', async () => {
  await writeFile(
    join(consumer, 'types.ts'),
    `${entries.map((entry, index) => `import * as e${index} from '${entry}';\nvoid e${index};`).join('\n')}
import { JobPool, type JobPoolProps } from 'holdfast/infra';
const props: JobPoolProps = { poolName: 'feeds' };
// @ts-expect-error what it does not know is refused
const misspelt: JobPoolProps = { poolname: 'feeds' };
void [JobPool, props, misspelt];
`,
  );
  const settings = {
    module: 'NodeNext',
    target: 'ES2024',
    lib: ['ES2024', 'ESNext.Disposable'],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
  };
  await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions: settings, files: ['types.ts'] }));
  await run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', consumer]);
});

test('the construct is synthesised from it, with the functions that it brings along', async () => {
  await runInConsumer(
    'app.mjs',
    `import { App, Stack } from 'aws-cdk-lib';
import { JobPool } from 'holdfast/infra';
const app = new App({ outdir: 'cdk.out' });
new JobPool(new Stack(app, 'Shop'), 'Feeds');
app.synth();`,
  );
  const assembly = join(consumer, 'cdk.out');
  const template = JSON.parse(await readFile(join(assembly, 'Shop.template.json'), 'utf8'));
  const types = Object.values<{ Type: string }>(template.Resources).map(({ Type }) => Type);
  expect(types.filter((type) => type === 'AWS::Lambda::Function')).toHaveLength(4);
  const assets = (await readdir(assembly)).filter((name) => name.startsWith('asset.'));
  expect(assets).toHaveLength(4);
  for (const asset of assets) expect(existsSync(join(assembly, asset, 'index.mjs'))).toBe(true);
});

test('it holds no sources, tests or reports', async () => {
  const files = await readdir(join(consumer, 'node_modules', 'holdfast'), { recursive: true });
  expect(files.filter((name) => /(^|\/)(test|node_modules)(\/|$)|(?<!\.d)\.ts$|test-report/.test(name))).toEqual([]);
});
