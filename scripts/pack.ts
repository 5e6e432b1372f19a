import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type BuildOptions, type Plugin } from 'esbuild'
import { noticesOf } from './notices.ts'

const top = fileURLToPath(new URL('../', import.meta.url))

/** What is started by name, see src/util/own-files.ts: a file each, as a thread loads one sooner than many. */
const programs = {
  'data-plane': 'src/relay/supervised/data-plane.ts',
  'relay-worker': 'src/relay/sockets/linux/worker-main.ts',
  'manifest-reader': 'src/source/manifests/reader-main.ts',
  'demo-backend': 'src/demo/backend-process.ts',
}

/** What the bench starts, see bench/process/child.ts. */
const benchPrograms = [
  'backends/main',
  'backends/udp-thread-main',
  'load/main',
  'sidecar/servers-main',
  'targets/pipe-main',
  'topology/probe-main',
]

/** CommonJS in a module asks for Node's own parts so. */
const banner = {
  js: `import { createRequire as requireOf } from 'node:module'
const require = requireOf(import.meta.url)`,
}

/**
 * Names stay, so that a stack says where it was. Libraries are packed, too, but for what few
 * need: koffi has a binary of its own, and of client-node most is never used.
 */
const forNode: BuildOptions = {
  absWorkingDir: top,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  banner,
  sourcemap: true,
  sourcesContent: false,
  external: [
    'koffi',
    '@kubernetes/client-node',
    'https-proxy-agent',
    'socks-proxy-agent',
    'pino-pretty',
  ],
  logLevel: 'error',
  metafile: true,
  write: false,
}

/**
 * What stands for pods in tests is on loopback, where no API server would have it: in place of
 * the one module that knows.
 */
const loopbackEndpoints: Plugin = {
  name: 'loopback endpoints',
  setup: plugin => {
    // Others ask it, too: what is steered goes by what loopback is.
    plugin.onResolve({ filter: /\/special-address\.ts$/ }, ({ importer, path }) =>
      importer.endsWith('/source/decode/endpoint-slice.ts')
        ? { path, namespace: 'loopback' }
        : undefined,
    )
    plugin.onLoad({ filter: /./, namespace: 'loopback' }, () => ({
      contents: "export const specialRange = () => ''",
    }))
  },
}

interface PackOptions {
  /** Takes endpoints on loopback, which is for tests. */
  readonly loopback?: boolean
  /** Other programs to put there, by name. */
  readonly more?: Readonly<Record<string, string>>
}

/**
 * Writes Usher's programs, the bench and the page into `folder`, as few large files: to find,
 * read and link hundreds of small ones is half of the processor time of a start. What was there
 * before goes; each file is whole at any time, as others may be using it.
 * @param folder - absolute; Usher finds its package.json above it
 * @returns the path of `usher`
 */
export const pack = async (
  folder: string,
  { loopback = false, more = {} }: PackOptions = {},
): Promise<string> => {
  const own = { ...forNode, outdir: folder, plugins: loopback ? [loopbackEndpoints] : [] }
  const built = await Promise.all([
    build({
      ...own,
      entryPoints: { usher: 'src/cli/main.ts', bench: 'bench/bench.ts' },
      // Help and the commands that only ask load no more than they need.
      splitting: true,
      chunkNames: 'part-[name]-[hash]',
    }),
    build({ ...own, entryPoints: { ...programs, ...benchEntries(), ...more } }),
    build({
      ...forNode,
      entryPoints: ['src/page/main.ts'],
      outdir: join(folder, 'page'),
      platform: 'browser',
      target: 'es2022',
      banner: {},
      external: [],
      sourcemap: 'external', // Browsers are given none.
    }),
  ])
  const files = new Map<string, Uint8Array>()
  for (const { outputFiles = [] } of built)
    for (const { path, contents } of outputFiles) files.set(path, contents)
  const inputs = built.flatMap(({ metafile }) => Object.keys(metafile?.inputs ?? {}))
  const notices = await noticesOf(top, inputs)
  files.set(join(folder, 'THIRD-PARTY-NOTICES.txt'), Buffer.from(notices))
  const page = join(top, 'src/page')
  for (const name of await readdir(page))
    if (/\.(?:html|css)$/.test(name))
      files.set(join(folder, 'page', name), await readFile(join(page, name)))
  checkCharacters(files)
  // What a program imports is there before it is.
  const parts = [...files].filter(([path]) => basename(path).startsWith('part-'))
  for (const [path, content] of new Map([...parts, ...files])) await place(path, content)
  for (const one of [folder, join(folder, 'page')])
    for (const path of (await readdir(one)).map(name => join(one, name)))
      if (!files.has(path) && path !== join(folder, 'page'))
        await rm(path, { recursive: true, force: true })
  return join(folder, 'usher.js')
}

const benchEntries = (): Record<string, string> =>
  Object.fromEntries(
    benchPrograms.map(name => [`bench-${name.replace('/', '-')}`, `bench/${name}.ts`]),
  )

/** V8 keeps a source in two bytes for each character where one of them has more than eight bits. */
const checkCharacters = (files: ReadonlyMap<string, Uint8Array>): void => {
  for (const [path, content] of files) {
    if (!path.endsWith('.js')) continue
    const found = /[^\0-\xff].{0,40}/u.exec(Buffer.from(content).toString())
    if (found !== null) throw new Error(`${path}: write ${found[0]} as \\u....`)
  }
}

const place = async (path: string, content: Uint8Array): Promise<void> => {
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${process.pid}`
  await writeFile(draft, content, { mode: path.endsWith('/usher.js') ? 0o755 : 0o644 })
  await rename(draft, path)
}
