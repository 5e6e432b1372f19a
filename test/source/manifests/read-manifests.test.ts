import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import t, { type Test } from 'tap'
import {
  parseDocuments,
  type RawDocument,
  readManifests,
  type ManifestSet,
  FirstSight,
} from '../../../src/source/manifests/read-manifests.ts'

const service = (name: string, port: number | string = 80): string =>
  [
    'apiVersion: v1',
    'kind: Service',
    `metadata: {name: ${name}}`,
    `spec: {clusterIP: 10.96.0.10, ports: [{port: ${port}}]}`,
    '',
  ].join('\n')

const readAll = async (paths: readonly string[]): Promise<ManifestSet> => {
  const set = await readManifests(paths)
  const firstSight = new FirstSight()
  return { ...set, objects: set.objects.map(object => firstSight.numbered(object)) }
}

const documentsOf = async (path: string, text: string): Promise<RawDocument[]> => {
  const documents: RawDocument[] = []
  for await (const document of parseDocuments(path, text)) documents.push(document)
  return documents
}

/** Reads the files, with their directory left out of what is said. */
const read = async (
  t: Test,
  files: Record<string, string>,
  ...names: string[]
): Promise<ManifestSet & { said: string[]; keys: string[] }> => {
  const directory = t.testdir(files)
  const paths = names.length > 0 ? names.map(name => join(directory, name)) : [directory]
  const set = await readAll(paths)
  const said = set.problems.map(({ object, field, message }) =>
    [object, field, message].join(' | ').replaceAll(join(directory, sep), ''),
  )
  return { ...set, said, keys: set.objects.map(({ key }) => key) }
}

t.test(
  'a file holds several documents, of which empty ones count in the numbering',
  async t => {
    const text = [service('a'), '# nothing\n', service('b', 70000), service('c')].join(
      '---\n',
    )
    const set = await read(t, { 'web.yaml': `---\n${text}` })
    t.strictSame(set.keys, ['Service default/a', 'Service default/c'])
    t.strictSame([...set.refused], ['Service default/b'])
    t.strictSame(set.said, [
      'web.yaml document 3 (Service default/b) | spec.ports[0].port | 70000 is not a port: 1 to 65535',
    ])
    t.equal(set.documents, 3)
    t.strictSame(set.unreadable, [])
  },
)

t.test('a directory is its manifests, by name, and nothing below it', async t => {
  const set = await read(t, {
    'b.yml': service('b'),
    'a.yaml': service('a'),
    'c.json': JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } }),
    '.web.yaml.swp': '\0',
    '.#a.yaml': 'x: [',
    'a.yaml~': 'x: [',
    'README.md': 'x: [',
    'sub.yaml': { 'd.yaml': service('d') } as unknown as string,
  })
  t.strictSame(set.keys, ['Service default/a', 'Service default/b', 'Node n'])
  t.strictSame(set.said, [])
})

t.test('a file named by itself may be called anything, and is read once', async t => {
  const set = await read(t, { services: service('a') }, 'services', '.', './services')
  t.strictSame(set.keys, ['Service default/a'])
  t.strictSame(set.said, [])
})

const item = (name: string, port: number) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { clusterIP: '10.96.0.1', ports: [{ port }] },
})

t.test('a List stands for its items, named by their place', async t => {
  const inner = { apiVersion: 'v1', kind: 'List', items: [item('b', 0)] }
  const list = { apiVersion: 'v1', kind: 'List', items: [item('a', 80), inner, 5] }
  const set = await read(t, { 'all.json': JSON.stringify(list) })
  t.strictSame(set.keys, ['Service default/a'])
  t.strictSame(set.said, [
    'all.json document 1 (Service default/b) | items[1].items[0].spec.ports[0].port | 0 is not a port: 1 to 65535',
    'all.json document 1 | items[2] | is not an object with apiVersion, kind and metadata',
  ])
})

t.test('Lists in Lists are followed to a bounded depth', async t => {
  let list: unknown = []
  for (let i = 0; i < 2000; i++) list = [{ apiVersion: 'v1', kind: 'List', items: list }]
  const set = await read(t, { 'deep.json': JSON.stringify((list as unknown[])[0]) })
  t.equal(set.said.length, 1)
  t.match(set.said[0], /nests Lists more than 8 deep/)
})

t.test('of two objects with one name the first stands', async t => {
  const set = await read(t, { 'a.yaml': service('web', 1), 'b.yaml': service('web', 2) })
  t.match(set.objects, [{ changes: [{ object: { ports: [{ port: 1 }] } }] }])
  t.equal(set.objects.length, 1)
  t.match(set.said, [
    /^b.yaml document 1 \(Service default\/web\) \| {2}\| is in .*a.yaml document 1 already, which takes precedence$/,
  ])
})

t.test('Services are numbered in the order of reading', async t => {
  const set = await read(t, { 'a.yaml': service('x'), 'b.yaml': service('a') })
  t.match(set.objects, [
    { changes: [{ object: { name: 'x', createdAt: 1 } }] },
    { changes: [{ object: { name: 'a', createdAt: 2 } }] },
  ])
})

t.test('each kind that is passed over is said once', async t => {
  const pod = 'apiVersion: v1\nkind: Pod\n---\n'
  const set = await read(t, { 'a.yaml': `${pod}${pod}apiVersion: apps/v1\nkind: Pod` })
  t.strictSame(
    set.skipped.map(text => text.split(' is not supported')[0]),
    ['v1 Pod', 'apps/v1 Pod'],
  )
  t.strictSame(set.said, [])
})

t.test('what can’t be parsed is told with file, document and line', async t => {
  const long = `${'x'.repeat(100)}: 1\n`
  const cases: [string, string, string][] = [
    ['a.yaml', `${service('a')}---\na: [1,\nb: 2\n`, 'document 2 |  | line 7: '],
    ['a.yaml', 'a: 1\na: 2\n', 'document 1 |  | line 2: the key "a" is given twice'],
    ['a.yaml', 'a: *b\n', 'document 1 |  | Unresolved alias'],
    ['a.yaml', 'apiVersi', 'document 1 |  | is not an object with apiVersion'],
    ['a.yaml', 'apiVersion: v1\nki', 'document 1 |  | line 2: '],
    ['a.yaml', 'apiVersion: v1\n', 'document 1 |  | has no kind; give Service'],
    ['a.yaml', '', 'document 1 |  | the file is empty; remove it, or leave a comment'],
    ['a.yaml', ' \n', 'document 1 |  | the file is empty;'],
    ['a.json', '{\n"a": 1,\n"b": }', 'document 1 |  | line 3: Unexpected token'],
    ['a.json', '{\n"a": 1,\n', 'document 1 |  | line 2: '],
    ['a.yaml', `- &a ${long}`.repeat(2) + '\t- @', 'document 1 |  | line '],
  ]
  for (const [name, text, said] of cases) {
    const set = await read(t, { [name]: text })
    t.ok(set.said[0]?.startsWith(`${name} ${said}`), `${set.said[0]} starts with ${said}`)
    t.equal(set.unreadable.length, 1)
    t.notOk(set.transient, 'reading it again can’t help')
  }
})

t.test('a file with comments only holds nothing, and that is no error', async t => {
  const set = await read(t, { 'a.yaml': '# later\n' })
  t.strictSame([set.keys, set.said, set.documents], [[], [], 0])
})

t.test('what can’t be read is told in words', async t => {
  const directory = t.testdir({
    'latin.yaml': Buffer.from([0x61, 0xe9]),
    'big.yaml': 'a',
  })
  const at = (name: string) => join(directory, name)
  mkdirSync(at('pipes'))
  execFileSync('mkfifo', [at('pipes/fifo.yaml')])
  symlinkSync('nowhere', at('pipes/gone.yaml'))
  truncateSync(at('big.yaml'), 64 * 1024 * 1024 + 1)
  const paths = ['latin.yaml', 'big.yaml', 'pipes', 'missing'].map(at)
  const set = await readAll(paths)
  const said = set.problems.map(({ object, message }) => [object, message])
  t.strictSame(said, [
    [at('missing'), 'there is no such file or directory'],
    [at('latin.yaml'), 'it is not UTF-8 text'],
    [at('big.yaml'), 'it is larger than 64 MiB; split it'],
    [at('pipes/fifo.yaml'), 'it is not a regular file'],
    [at('pipes/gone.yaml'), 'there is no such file or directory'],
  ])
  t.ok(set.transient)
})

t.test(
  'a file that may not be read is told so',
  { skip: process.getuid?.() === 0 && 'root may read all' },
  async t => {
    const directory = t.testdir({ 'a.yaml': service('a') })
    chmodSync(join(directory, 'a.yaml'), 0)
    const set = await readAll([directory])
    t.match(set.unreadable, [{ message: 'permission to read it is denied' }])
  },
)

t.test('a file name can’t forge a log line', async t => {
  const directory = t.testdir({})
  writeFileSync(join(directory, 'a\nb.yaml'), 'x')
  const set = await readAll([directory])
  t.match(set.problems[0]?.object, /a\\u000ab.yaml document 1$/)
})

t.test('a byte order mark, CRLF, merge keys and aliases are understood', async t => {
  const text = [
    '\ufeffapiVersion: v1',
    'kind: Service',
    'metadata: {name: &name web, namespace: *name}',
    'spec:',
    '  clusterIP: 10.96.0.10',
    '  ports:',
    '  - &port {name: a, port: 80}',
    '  - {<<: *port, name: b, protocol: UDP}',
    '',
  ].join('\r\n')
  const set = await read(t, { 'a.yaml': text })
  t.strictSame(set.said, [])
  t.match(set.objects[0], {
    key: 'Service web/web',
    changes: [{ object: { ports: [{ port: 80 }, { name: 'b', port: 80 }] } }],
  })
})

t.test('documents made to grow when read are refused', async t => {
  const laughs = ['a0: &a0 [x,x,x,x,x,x,x,x,x]']
  for (let i = 1; i < 10; i++) {
    const nine = Array.from({ length: 9 }, () => `*a${i - 1}`).join(',')
    laughs.push(`a${i}: &a${i} [${nine}]`)
  }
  const pairs = Array.from({ length: 2000 }, (_, i) => `- &b${i} x\n- *b${i}\n`)
  const cases: [string, string, RegExp][] = [
    ['billion laughs', laughs.join('\n'), /Excessive alias count/],
    ['many aliases', pairs.join(''), /more than 1000 aliases/],
    ['deep flow', '['.repeat(200_000), /^line 1: it is nested too deeply/],
    ['deep flow, closed', `${'['.repeat(201)}${']'.repeat(201)}`, /nested too deeply/],
    ['deep mappings', `\n${'{a: '.repeat(201)}`, /^line 2: it is nested too deeply/],
    ['deep block', '- '.repeat(201), /nested too deeply/],
    ['deep keys', '? '.repeat(201), /nested too deeply/],
    ['one huge document', `a: "${'x'.repeat(5 * 1024 * 1024)}"`, /larger than 4 MiB/],
  ]
  for (const [name, text, message] of cases) {
    const [document, ...more] = await documentsOf('a.yaml', text)
    t.match(document?.error, message, name)
    t.strictSame(more, [], name)
  }
  for (const [open, close] of ['[]', '{}'])
    t.match(await documentsOf('a.yaml', `${open?.repeat(90)}${close?.repeat(90)}`), [
      { error: '' },
    ])
  const [json] = await documentsOf('a.json', '['.repeat(1_000_000))
  t.match(json?.error, /^line 1: /)
})

t.test('many small documents may be more than one document’s bound', async t => {
  const one = `x: "${'y'.repeat(1024 * 1024)}"\n---\n`
  const documents = await documentsOf('a.yaml', one.repeat(10))
  t.strictSame(
    documents.filter(({ error }) => error !== ''),
    [],
  )
  t.ok(documents.length >= 10)
})

t.test('the words of the file are no code: __proto__ stays a word', async t => {
  const text = '{"apiVersion":"v1","kind":"List","__proto__":{"items":[1]},"items":[]}'
  for (const name of ['a.yaml', 'a.json'])
    t.strictSame((await read(t, { [name]: text })).said, [], name)
})

t.test('a ServiceCIDR is read', async t => {
  const text = [
    'apiVersion: networking.k8s.io/v1',
    'kind: ServiceCIDR',
    'metadata: {name: kubernetes}',
    'spec: {cidrs: [10.96.0.0/12]}',
  ].join('\n')
  const set = await read(t, { 'cidr.yaml': text })
  t.strictSame([set.keys, set.said], [['ServiceCIDR kubernetes'], []])
  t.match(set.objects[0]?.changes, [{ kind: 'ServiceCIDR', name: 'kubernetes' }])
})
