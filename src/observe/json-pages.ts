import { forEachYielding } from '../util/list-diff.ts'

/** Characters in one page. */
const pageChars = 128 * 1024

/**
 * A document as JSON, in pages: the fields of `head`, and the list `name` of `items`, which are JSON. Between pages
 * the event loop runs: of 10 000 ServicePorts with 10 endpoints it would stand still for long.
 */
export const jsonPages = async (
  head: object,
  name: string,
  items: Iterable<string>,
): Promise<Buffer[]> => {
  const start = JSON.stringify(head).slice(0, -1)
  const pages: Buffer[] = []
  let page = `${start}${start === '{' ? '' : ','}${JSON.stringify(name)}:[`
  let comma = ''
  await forEachYielding(items, item => {
    page += comma + item
    comma = ','
    if (page.length < pageChars) return
    pages.push(Buffer.from(page))
    page = ''
  })
  pages.push(Buffer.from(`${page}]}\n`))
  return pages
}
