import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'

const top = fileURLToPath(new URL('../../', import.meta.url))
const dist = join(top, 'dist')

/** What Usher starts is found by its place beside what starts it. */
const entryPoints = {
  'dist/cli/main': 'cli/main.js',
  'dist/cli/backend-process': 'demo/backend-process.js',
  'dist/cli/data-plane': 'relay/supervised/data-plane.js',
  'dist/cli/reader-main': 'source/manifests/reader-main.js',
  'dist/cli/worker-main': 'relay/sockets/linux/worker-main.js',
}

/** CommonJS in a module asks for Node's own parts so. */
const banner = {
  js: `import { createRequire as requireOf } from 'node:module'
const require = requireOf(import.meta.url)`,
}

/**
 * What stands for pods in tests is on loopback, where no API server would have it: in place of
 * the one module that knows. As `test/support/loopback-endpoints.mjs` does it to `dist`.
 */
const loopbackEndpoints: Plugin = {
  name: 'loopback endpoints',
  setup: plugin => {
    // Others ask it, too: what is steered goes by what loopback is.
    plugin.onResolve({ filter: /\/special-address\.js$/ }, ({ importer, path }) =>
      importer.endsWith('/source/decode/endpoint-slice.js')
        ? { path, namespace: 'loopback' }
        : undefined,
    )
    plugin.onLoad({ filter: /./, namespace: 'loopback' }, () => ({
      contents: "export const specialRange = () => ''",
    }))
  },
}

interface BundleOptions {
  readonly loopback?: boolean
  /** Other programs to put there, by name. */
  readonly more?: Readonly<Record<string, string>>
}

/**
 * Writes what the build made of Usher as few large files: to find, read and link hundreds of
 * small ones is half of the processor time of a start, of which tests need hundreds. The folder
 * is inside of the project, where koffi's binary is found, which can't be packed.
 * @returns the path of `usher`
 */
export const bundleUsher = async (
  folder: string,
  { loopback = false, more = {} }: BundleOptions = {},
): Promise<string> => {
  await mkdir(folder, { recursive: true })
  const own = Object.entries(entryPoints).map(([name, path]) => [name, join(dist, path)])
  await build({
    entryPoints: { ...Object.fromEntries(own), ...more },
    outdir: folder,
    bundle: true,
    splitting: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    minifyWhitespace: true,
    minifySyntax: true,
    banner,
    external: [
      'koffi',
      '@kubernetes/client-node',
      'https-proxy-agent',
      'socks-proxy-agent',
      'pino-pretty',
    ],
    plugins: loopback ? [loopbackEndpoints] : [],
    logLevel: 'error',
  })
  // As Usher's own, beside `dist`: it says the version.
  await place(join(top, 'package.json'), join(folder, 'package.json'))
  // Files for browsers stay as they are: what serves them finds them by its place, too.
  await mkdir(join(folder, 'page'), { recursive: true })
  for (const name of await readdir(join(dist, 'page')))
    await place(join(dist, 'page', name), join(folder, 'page', name))
  return join(folder, 'dist/cli/main.js')
}

/** Whole at any time: another run of tests may use it, or place it too. */
const place = async (from: string, to: string): Promise<void> => {
  const draft = `${to}.${process.pid}`
  await writeFile(draft, await readFile(from))
  await rename(draft, to)
}

/** For the tests of a run: their environment, by which `test/support/usher-program.ts` finds it. */
export const bundleForTests = async (): Promise<Readonly<Record<string, string>>> => {
  // Without a build a test says itself that it is missing.
  if (!existsSync(join(dist, 'cli/main.js'))) return {}
  const folder = join(top, '.tap/usher')
  const [plain, loopback] = await Promise.all([
    bundleUsher(join(folder, 'plain')),
    bundleUsher(join(folder, 'loopback'), { loopback: true }),
  ])
  return { USHER_TEST_PROGRAM: plain, USHER_TEST_PROGRAM_LOOPBACK: loopback }
}
