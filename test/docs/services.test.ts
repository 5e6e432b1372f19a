import { readFileSync } from 'node:fs'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { decode } from '../../src/source/decode/decode.ts'
import {
  annotated,
  annotationPrefix,
  readAnnotations,
} from '../../src/source/decode/service-annotations.ts'

const relayPage = readFileSync(new URL('../../docs/relay.md', import.meta.url), 'utf8')
const [page = ''] =
  relayPage.split('\n## Annotations of Services\n')[1]?.split('\n## ') ?? []

t.test('the table has all annotations, with examples that are right', async t => {
  const rows = [...page.matchAll(/^\| `([a-z-]+)` +\| `([^`]+)` +\|/gm)]
  t.strictSame(
    rows.map(([, key = '']) => key),
    [...annotated.keys()],
  )
  const all = rows.map(([, key = '', example]) => [`${annotationPrefix}${key}`, example])
  t.strictSame(readAnnotations(Object.fromEntries(all)).faults, [])
})

t.test('the Services of the page are sound', async t => {
  const blocks = [...page.matchAll(/```yaml\n([^]*?)```/g)]
  t.ok(blocks.length > 0)
  for (const [, text = ''] of blocks)
    for (const document of parseAllDocuments(text)) {
      const decoded = decode(document.toJS())
      t.match(decoded, { problems: [], changes: [{ object: { name: /./ } }] }, text)
    }
})
