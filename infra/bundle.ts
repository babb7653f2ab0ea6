import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { build } from 'esbuild';

/**
 * Bundles each function with all that it imports, the AWS SDK too, into `dist/functions/<name>/`: what runs is what was tested,
 * whatever the runtime brings along. Files that did not change are left alone, so that a deployment can read them meanwhile.
 */
export async function bundleFunctions(): Promise<void> {
  const sizes = await Promise.all(functions.map(bundle));
  process.stderr.write(`bundled ${sizes.join(', ')}\n`);
}

const root = join(import.meta.dirname, '..');
const functions = ['request', 'report', 'sweep', 'resync', 'events'] as const;

async function bundle(name: (typeof functions)[number]): Promise<string> {
  const folder = join(root, 'dist', 'functions', name);
  const { outputFiles } = await build({
    entryPoints: [join(root, 'functions', `${name}.ts`)],
    outfile: join(folder, 'index.mjs'),
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    // Packages offer `main` for CommonJS and `module` for what tree shaking can work on.
    mainFields: ['module', 'main'],
    logLevel: 'warning',
    write: false,
  });
  await mkdir(folder, { recursive: true });
  for (const { path, contents } of outputFiles) await writeWhereChanged(path, contents);
  const bytes = outputFiles.find(({ path }) => basename(path) === 'index.mjs')?.contents.byteLength ?? 0;
  return `${name}: ${Math.round(bytes / 1_024)} KiB`;
}

async function writeWhereChanged(path: string, contents: Uint8Array): Promise<void> {
  const present = await readFile(path).catch(() => undefined);
  if (present?.equals(contents)) return;
  // Never half a file, whoever else bundles or deploys at this moment.
  const fresh = `${dirname(path)}.${basename(path)}.${process.pid}`;
  await writeFile(fresh, contents);
  await rename(fresh, path);
}

if (import.meta.main) await bundleFunctions();
