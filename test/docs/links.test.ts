import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { anchorsOf } from '../support/anchors.ts'
import { top } from '../support/deploy.ts'

const pagesIn = (folder: string): readonly string[] =>
  readdirSync(join(top, folder), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => join(folder, name))

const read = (path: string): string => readFileSync(join(top, path), 'utf8')

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
