import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { version } from '../../src/cli/version.ts'
import { top } from '../support/deploy.ts'
import { baseImages, saidBy, stageNamed, stages } from '../support/dockerfile.ts'

// There may be no container engine where the tests run, so this reads the Dockerfile for what would make a
// build fail or an image not start, and a docker that only notes down what it is to do takes the place of the
// real one. deploy-image-files.test.ts runs what the images have.

const read = (path: string): string => readFileSync(`${top}${path}`, 'utf8')
const copies = stages.flatMap(stage => saidBy(stage, 'COPY')).map(line => line.split(' '))
const images = ['usher', 'tools'].map(stageNamed)

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
  const names = new Set(stages.map(({ name }) => name))
  const taken = copies.filter(([first = '']) => first.startsWith('--from='))
  t.ok(taken.length > 0)
  for (const [from = ''] of taken) t.ok(names.has(from.slice('--from='.length)), from)
})

t.test(
  'tools has the tools that Usher runs, and is what is built by default',
  async t => {
    const [line = ''] = saidBy(stageNamed('tools'), 'RUN')
    const installed = /apt-get install (.*?)\s+&&/.exec(line)?.[1]?.split(/\s+/) ?? []
    t.strictSame(
      installed.filter(word => !word.startsWith('-')),
      ['conntrack', 'iproute2', 'ipset', 'iptables', 'ipvsadm', 'kmod', 'nftables'],
    )
    t.equal(stages.at(-1)?.name, 'tools')
  },
)

t.test('usher is built without a shell, which its base lacks', async t => {
  t.match(stageNamed('usher').base, /^gcr\.io\/distroless\/nodejs/)
  t.strictSame(saidBy(stageNamed('usher'), 'RUN'), [])
})

t.test('both start the program that the build makes, as nobody', async t => {
  for (const image of images) {
    t.strictSame(saidBy(image, 'ENTRYPOINT'), ['["usher"]'])
    t.strictSame(saidBy(image, 'USER'), ['65532:65532'])
    t.equal(saidBy(image, 'COPY')[0], '--from=program /usher ./')
  }
})

t.test('both have it in their PATH, as `usher`', async t => {
  const { bin } = JSON.parse(read('package.json')) as { bin: { usher: string } }
  const main = `/usher/${bin.usher}`
  // Without env a first line names Node where it is; deploy-image-files.test.ts runs it.
  const build = saidBy(stageNamed('build'), 'RUN').find(line =>
    line.includes('npm run build'),
  )
  t.match(build, `printf '#!/nodejs/bin/node\\nimport("${main}")\\n' >bin/usher`)
  const [, copied] = saidBy(stageNamed('usher'), 'COPY')
  t.equal(copied, '--from=build /usher/bin/usher /nodejs/bin/usher')
  const [variables = ''] = saidBy(stageNamed('usher'), 'ENV')
  t.match(variables, / PATH=\/nodejs\/bin$/)
  t.equal(saidBy(stageNamed('tools'), 'COPY').length, 1)
  const [run = ''] = saidBy(stageNamed('tools'), 'RUN')
  t.match(run, `ln -s ${main} /usr/local/bin/usher`)
})

t.test('all base images have one Node, which is new enough', async t => {
  const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
  const majors = [...baseImages.values()].map(
    image => /node(?:js|:)(\d+)-/.exec(image)?.[1],
  )
  const [major] = majors
  t.strictSame(new Set(majors), new Set([major]))
  t.ok(Number(major) >= Number(/\d+/.exec(engines.node)?.[0]), String(major))
})

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`

/** Runs scripts/image.sh with a docker that knows one digest, and says what it was asked to build. */
const buildImages = (t: Test, args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
  const folder = t.testdir({
    bin: {
      docker: `#!/bin/bash
        case "$1 $2 $3" in
          'buildx imagetools inspect') echo '{"digest":"'$DIGEST'"}' ;;
          'buildx build '*) printf '%s\\n' "\${@:3}" '' >>${t.testdirName}/asked ;;
          *) exit 1 ;;
        esac`,
    },
    asked: '',
  })
  chmodSync(join(folder, 'bin/docker'), 0o755)
  const { status, stderr } = spawnSync(`${top}scripts/image.sh`, args, {
    encoding: 'utf8',
    env: {
      DIGEST: digest,
      ...env,
      PATH: `${join(folder, 'bin')}:${process.env['PATH']}`,
    },
  })
  const asked = readFileSync(join(folder, 'asked'), 'utf8').split('\n\n').filter(Boolean)
  return { status, stderr, asked: asked.map(text => text.split('\n')) }
}

t.test(
  'both images are built on bases that are pinned, with all that says so',
  async t => {
    const { status, stderr, asked } = buildImages(t, ['registry.example/usher', '--push'])
    t.equal(status, 0, stderr)
    const expected = [
      ['usher', version(), 'RUNTIME_IMAGE'],
      ['tools', `${version()}-tools`, 'NODE_IMAGE'],
    ] as const
    t.equal(asked.length, expected.length)
    for (const [at, [target, tag, base]] of expected.entries()) {
      const flags = asked[at] ?? []
      const follows = (flag: string): string[] =>
        flags.flatMap((word, place) => (word === flag ? [flags[place + 1] ?? ''] : []))
      t.strictSame(follows('--target'), [target])
      t.strictSame(follows('--tag'), [`registry.example/usher:${tag}`])
      t.strictSame(
        follows('--build-arg'),
        Array.from(baseImages, ([name, image]) => `${name}=${image}@${digest}`),
      )
      const labels = new Map(
        follows('--label').map(label => label.split('=') as [string, string]),
      )
      const label = (name: string): string | undefined =>
        labels.get(`org.opencontainers.image.${name}`)
      t.equal(label('version'), version())
      t.match(label('revision'), /^[0-9a-f]{40}(-dirty)?$/)
      t.equal(label('base.name'), baseImages.get(base))
      t.equal(label('base.digest'), digest)
      t.strictSame(flags.slice(-4), [
        '--sbom=true',
        '--provenance=mode=max',
        '--push',
        '.',
      ])
    }
  },
)

t.test('a base image with a digest is taken as it is', async t => {
  const NODE_IMAGE = `registry.example/node:24@${digest.replaceAll('0', 'f')}`
  const { asked } = buildImages(t, ['usher'], { NODE_IMAGE })
  for (const flags of asked) t.ok(flags.includes(`NODE_IMAGE=${NODE_IMAGE}`))
})

t.test('without a digest nothing is built', async t => {
  const { status, stderr, asked } = buildImages(t, ['usher'], { DIGEST: '' })
  t.not(status, 0)
  t.match(stderr, 'node:24-trixie-slim has no digest')
  t.strictSame(asked, [])
  t.equal(buildImages(t, ['--push']).status, 2, 'and without a name')
})
