import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** What runs in the machine, by their paths on the host, which it sees. */
export interface GuestPrograms {
  readonly agent: string
  /** `usher`. */
  readonly usher: string
}

const fromHere = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** What the build makes of Usher; `npm test` builds first. */
const dist = fromHere('../../dist')
const entryPoints = {
  agent: fromHere('guest/agent.ts'),
  'place-process': fromHere('../support/net/agent-process.ts'),
  'dist/cli/main': join(dist, 'cli/main.js'),
  // Found by their places beside what starts them.
  'dist/cli/data-plane': join(dist, 'relay/supervised/data-plane.js'),
  'dist/cli/reader-main': join(dist, 'source/manifests/reader-main.js'),
  'dist/cli/worker/worker-main': join(dist, 'relay/linux/worker/worker-main.js'),
}

/** CommonJS in a module asks for Node's own parts so. */
const banner = {
  js: `import { createRequire as requireOf } from 'node:module'
const require = requireOf(import.meta.url)`,
}

/**
 * Writes what runs in the machine as few large files: an emulated processor takes longer
 * over a file that it has to find and open than over what is in it, and Usher has hundreds.
 * The folder is inside of the project, where koffi's binary is found, which can't be packed.
 */
export const writeGuestPrograms = async (folder: string): Promise<GuestPrograms> => {
  await mkdir(folder, { recursive: true })
  await build({
    entryPoints,
    outdir: folder,
    bundle: true,
    splitting: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    minifyWhitespace: true,
    minifySyntax: true,
    banner,
    external: ['koffi', '@kubernetes/client-node', 'pino-pretty'],
    logLevel: 'error',
  })
  // As Usher's own, beside `dist`.
  const manifest = { type: 'module', version: '0.0.0' }
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest))
  return {
    agent: join(folder, 'agent.js'),
    usher: join(folder, 'dist/cli/main.js'),
  }
}
