import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { checkOutputs, keepResults, writeResults } from '../../bench/outputs.ts'
import { smallRun } from './small-run.ts'

const never = (text: string): void => void t.fail(`printed: ${text}`)

t.test('a trial leaves nothing behind', async t => {
  const folder = t.testdir()
  checkOutputs({ output: join(folder, 'a/b'), markdown: join(folder, 'c/d.md') }, '')
  t.strictSame(readdirSync(folder), [])
})

t.test('what ends with the sandbox is refused', async t => {
  const folder = t.testdir()
  const inside = join(folder, 'run/results')
  t.throws(() => checkOutputs({ output: inside, markdown: '' }, join(folder, 'run')), {
    message: /is within .*run, of which the bench has one of its own/,
  })
  t.doesNotThrow(() =>
    checkOutputs({ output: join(folder, 'runs'), markdown: '' }, join(folder, 'run')),
  )
  t.notOk(existsSync(inside))
})

t.test('a directory that can never be made is refused at once', async t =>
  t.throws(() => checkOutputs({ output: '/proc/none/here', markdown: '' }, ''), {
    message: /--output .* can't be written: ENOENT/,
  }),
)

t.test('a page that is no page is refused', async t => {
  for (const markdown of ['page.txt', '.md', 'folder/.md'])
    t.throws(() => checkOutputs({ output: t.testdir(), markdown }, ''), {
      message: /give the name of a file that ends in .md/,
    })
})

t.test('results of the same second stand beside each other', async t => {
  const folder = t.testdir()
  const first = writeResults(smallRun, folder)
  const second = writeResults(smallRun, folder)
  t.equal(new Set([...first, ...second]).size, 4)
  t.equal(readdirSync(folder).length, 4)
})

t.test('figures that can not go where they should go elsewhere', async t => {
  const folder = t.testdir()
  writeFileSync(join(folder, 'full'), '')
  mkdirSync(join(folder, 'page.md'))
  const places = { output: join(folder, 'full'), markdown: join(folder, 'page.md') }
  const { written, troubles } = keepResults(smallRun, places, never)
  t.teardown(() => {
    for (const path of written) rmSync(dirname(path), { recursive: true, force: true })
  })
  t.equal(
    written.filter(path => /\/usher-bench-\w+\/.*\.(json|html)$/.test(path)).length,
    2,
  )
  t.match(troubles, [
    /^the figures can't be written: EEXIST/,
    /^the page can't be written/,
  ])
})
