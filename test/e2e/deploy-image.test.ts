// A process of its own: long, and it mostly waits.
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { top } from '../support/deploy.ts'

// There may be no container engine where the tests run, so this reads the Dockerfile for
// what would make a build fail or an image not start.

const read = (path: string): string => readFileSync(`${top}${path}`, 'utf8')
const dockerfile = read('Dockerfile').replaceAll('\\\n', ' ')
const lines = (instruction: string): string[] =>
  [...dockerfile.matchAll(new RegExp(`^${instruction} (.*)$`, 'gm'))].map(
    ([, rest = '']) => rest,
  )
const copies = lines('COPY').map(line => line.split(' '))

t.test('the image', async t => {
  t.test('what the image copies is in the repository, and reaches the build', async t => {
    const sources = copies
      .filter(([first = '']) => !first.startsWith('--from'))
      .flatMap(words => words.slice(0, -1))
    const passed = read('.dockerignore')
      .split('\n')
      .filter(line => line.startsWith('!'))
      .map(line => line.slice(1))
    t.ok(sources.includes('src'), 'COPY lines were found')
    for (const source of sources) t.ok(existsSync(`${top}${source}`), source)
    t.strictSame([...new Set(sources)].toSorted(), passed.toSorted())
  })

  t.test('what one stage takes from another, that one has', async t => {
    const stages = new Set(lines('FROM').map(line => line.split(' AS ')[1] ?? ''))
    const taken = copies.filter(([first = '']) => first.startsWith('--from='))
    t.ok(taken.length > 0)
    for (const [from = ''] of taken) t.ok(stages.has(from.slice('--from='.length)))
  })

  t.test('the image has the tools that Usher runs', async t => {
    const installed =
      /apt-get install (.*?)\s+&&/s.exec(dockerfile)?.[1]?.split(/\s+/) ?? []
    const packages = [
      'conntrack',
      'iproute2',
      'ipset',
      'iptables',
      'ipvsadm',
      'kmod',
      'nftables',
    ]
    t.strictSame(
      installed.filter(word => !word.startsWith('-')),
      packages,
    )
  })

  t.test('the image starts the program that the build makes, as nobody', async t => {
    const { bin, engines } = JSON.parse(read('package.json')) as {
      bin: { usher: string }
      engines: { node: string }
    }
    t.strictSame(lines('ENTRYPOINT'), [`["node", "/usher/${bin.usher}"]`])
    t.strictSame(lines('USER'), ['65532:65532'])
    const least = Number(/\d+/.exec(engines.node)?.[0])
    for (const image of lines('FROM')) {
      const [, major] = /^node:(\d+)-[a-z-]+/.exec(image) ?? []
      t.ok(Number(major) >= least, image)
    }
  })
})
