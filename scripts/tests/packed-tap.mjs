import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { top } from './compiled.mjs'

/** tap takes what is below a folder of this name for its own, and shows no frames of it. */
const file = `${top}.tap/compiled/node_modules/@tapjs/packed.mjs`

/** CommonJS in a module asks for Node's own parts so. */
const banner = {
  js: `import { createRequire as requireOf } from 'node:module'
const require = requireOf(import.meta.url)`,
}

/**
 * tap as one file: on Node 20 each of its two hundred modules is asked of the thread with the
 * hooks, and a process with tests takes 0.3 s of processor time longer to start.
 */
export const packTap = async () => {
  const { build } = await import('esbuild')
  mkdirSync(dirname(file), { recursive: true })
  const written = `${file}.${process.pid}`
  await build({
    entryPoints: [fileURLToPath(import.meta.resolve('tap'))],
    outfile: written,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    banner,
    // Finds files beside itself, for t.spawn().
    external: ['@tapjs/processinfo'],
    logLevel: 'error',
  })
  renameSync(written, file)
}

/** Where it is, once there is one. */
export const packedTap = existsSync(file) ? pathToFileURL(file).href : undefined
