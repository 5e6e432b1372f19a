/**
 * Part of `npm run check`: who may import whom in src/, and that no imports go in circles.
 * Types count: a reader follows them too. docs/architecture.md has the same as a table.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const top = fileURLToPath(new URL('../src/', import.meta.url))

/** By folder of src/, the folders that it may import from, besides itself. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  util: [],
  page: [],
  ffi: [],
  model: ['util'],
  balance: ['model', 'util'],
  relay: ['balance', 'ffi', 'model', 'util'],
  kernel: ['ffi', 'model', 'util'],
  capture: ['kernel', 'model', 'util'],
  health: ['model', 'util'],
  source: ['health', 'model', 'util'],
  mode: ['capture', 'kernel', 'model', 'relay', 'source', 'util'],
  observe: [
    'capture',
    'ffi',
    'health',
    'kernel',
    'mode',
    'model',
    'page',
    'relay',
    'source',
    'util',
  ],
  config: ['mode', 'source', 'util'],
  demo: ['model', 'observe', 'relay', 'source', 'util'],
  proxy: [
    'capture',
    'health',
    'kernel',
    'mode',
    'model',
    'observe',
    'relay',
    'source',
    'util',
  ],
  cli: [
    'capture',
    'config',
    'demo',
    'kernel',
    'mode',
    'model',
    'observe',
    'page',
    'proxy',
    'relay',
    'source',
    'util',
  ],
}

type Graph = ReadonlyMap<string, readonly string[]>

const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter(entry => entry.isFile() && entry.name.endsWith('.ts'))
    .map(entry => relative(top, join(entry.parentPath, entry.name)))

/** The files of src/ that one imports, also for types or when it needs them. */
const importsOf = (file: string): readonly string[] => {
  const text = readFileSync(join(top, file), 'utf8')
  const named = text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'/g)
  return [...named].map(([, path = '']) => join(dirname(file), path))
}

const folderOf = (file: string): string => file.split('/', 1).join('')

const forbidden = (graph: Graph): readonly string[] =>
  [...graph].flatMap(([file, imports]) => {
    const from = folderOf(file)
    return imports
      .filter(to => folderOf(to) !== from && !mayImport[from]?.includes(folderOf(to)))
      .map(to => `src/${file} imports src/${to}: ${from}/ may not use ${folderOf(to)}/`)
  })

/** Sets of files that reach each other (Tarjan's strongly connected components). */
const circles = (graph: Graph): readonly (readonly string[])[] => {
  const found: (readonly string[])[] = []
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const path: string[] = []
  const visit = (file: string): void => {
    order.set(file, order.size)
    lowest.set(file, order.size - 1)
    path.push(file)
    for (const to of graph.get(file) ?? []) {
      if (!order.has(to)) visit(to)
      if (path.includes(to))
        lowest.set(file, Math.min(lowest.get(file) ?? 0, lowest.get(to) ?? 0))
    }
    if (lowest.get(file) !== order.get(file)) return
    const circle = path.splice(path.indexOf(file))
    if (circle.length > 1) found.push(circle)
  }
  for (const file of graph.keys()) if (!order.has(file)) visit(file)
  return found
}

const graph: Graph = new Map(filesIn(top).map(file => [file, importsOf(file)]))
const faults = [
  ...forbidden(graph),
  ...circles(graph).map(files => `a circle of imports: ${files.join(', ')}`),
]
for (const fault of faults) process.stderr.write(`${fault}\n`)
if (faults.length > 0) process.exitCode = 1
