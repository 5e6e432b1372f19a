import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { top } from '../support/deploy.ts'

const pagesIn = (folder: string): readonly string[] =>
  readdirSync(join(top, folder), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => join(folder, name))

const read = (path: string): string => readFileSync(join(top, path), 'utf8')

const withoutCode = (text: string): string =>
  text
    .replaceAll(/^```[^]*?^```/gm, '')
    .replaceAll(/`[^`\n]*`/g, code => code.slice(1, -1))

/** As GitHub makes them of headings: what comes again is numbered. */
const anchorsOf = (text: string): ReadonlySet<string> => {
  const anchors = new Set<string>()
  for (const [, heading = ''] of withoutCode(text).matchAll(/^#+ (.*)$/gm)) {
    const name = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-')
    let anchor = name
    for (let again = 1; anchors.has(anchor); again += 1) anchor = `${name}-${again}`
    anchors.add(anchor)
  }
  return anchors
}

/** What is wrong with the links of a page to files of the clone. */
const deadLinks = (page: string, text: string): readonly string[] =>
  [...text.replaceAll(/^```[^]*?^```/gm, '').matchAll(/\]\(([^)\s]+)\)/g)].flatMap(
    ([, link = '']) => {
      if (/^[a-z]+:/.test(link)) return []
      const [path = '', anchor = ''] = link.split('#')
      const target = path === '' ? page : join(page, '..', path)
      if (!existsSync(join(top, target))) return [`${page}: ${link}`]
      if (anchor === '') return []
      const file = target.endsWith('.md') ? target : join(target, 'README.md')
      return anchorsOf(read(file)).has(anchor) ? [] : [`${page}: ${link}`]
    },
  )

t.test('links of the pages lead to files and headings that are there', async t => {
  const pages = ['README.md', 'CHANGELOG.md', ...pagesIn('docs'), ...pagesIn('deploy')]
  t.ok(pages.length > 15)
  t.strictSame(
    pages.flatMap(page => deadLinks(page, read(page))),
    [],
  )
})

t.test('dead ones are found', async t => {
  const links = ['docs/nowhere.md', 'docs/modes.md#nowhere', '#nowhere']
  const text = links.map(link => `[a](${link})`).join(' ')
  t.equal(deadLinks('README.md', text).length, links.length)
})
