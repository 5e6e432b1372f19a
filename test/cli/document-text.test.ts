import t from 'tap'
import { parse } from 'yaml'
import { jsonText, yamlText } from '../../src/cli/document-text.ts'
import { printListing } from '../../src/cli/get.ts'
import { printerOf } from '../../src/cli/tap.ts'
import { keptIo } from '../support/kept-io.ts'

const hostile = 'a\u001B[31m\u007F\u009B2Jb\u202Ec\u2066d\u2069 \u0085\r\n\té€🙂'
const drivesTerminal = /(?![\n])[\p{Cc}\u202A-\u202E\u2066-\u2069]/u
const document = { name: hostile, list: [{ [hostile]: hostile }, 'web', 1, null] }

t.test('nothing that drives a terminal is printed, and nothing is lost', async t => {
  for (const text of [jsonText(document), jsonText(document, 2)]) {
    t.notMatch(text, drivesTerminal)
    t.strictSame(JSON.parse(text), document)
  }
  const yaml = await yamlText(document)
  t.notMatch(yaml, drivesTerminal)
  t.strictSame(parse(yaml), document)
  t.match(jsonText('é€🙂'), 'é€🙂')
  t.equal(await yamlText({ a: 'b' }), 'a: b\n')
})

t.test('so do lists, and connections as they end', async t => {
  const { io, printed } = keptIo()
  const items = [{ name: hostile, document: () => document, row: () => [] }]
  const listing = { kind: 'X', one: 'x', head: () => [], items, left: 0 }
  for (const output of ['json', 'yaml'] as const)
    await printListing(
      listing as unknown as Parameters<typeof printListing>[0],
      {
        output,
        noHeaders: false,
        namespace: '',
      },
      io,
    )
  printerOf({ output: 'json', service: [] }, io).open({
    id: '1',
    route: 'default/web',
    client: hostile,
    endpoint: '',
    state: 'open',
    ageMs: 0,
    bytesToBackend: 0,
    bytesToClient: 0,
    idleMs: null,
  })
  t.match(printed.out, '\\u009b2Jb\\u202ec')
  t.notMatch(printed.out, drivesTerminal)
})
