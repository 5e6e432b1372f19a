import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const script = readFileSync(
  new URL('../../scripts/test-packages.sh', import.meta.url),
  'utf8',
)
const notRoot = process.getuid?.() !== 0 && 'only root installs packages'

interface Host {
  /** The one package that is not installed; '' when all are. */
  readonly missing: string
  readonly hasKernel: boolean
  readonly hasHelm: boolean
}

/** Runs the script on a host that has what is said, and where apt-get can't do anything. */
const runOn = (t: Test, { missing, hasKernel, hasHelm }: Host, ...asWhom: string[]) => {
  const programs = {
    'dpkg-query': `for p in "\${@:3}"; do [ $p = "${missing}" ] || echo "$p installed"; done`,
    'apt-get': 'echo "no mirror: $*"; exit 100',
    npm: 'echo "no registry" >&2; exit 1',
    'apt-cache': 'echo "  Depends: linux-image-6.6.6"',
    uname: '[ "$*" = -m ] && echo x86_64 || echo Linux',
    ...(hasHelm ? { helm: '' } : {}),
  }
  const folder = t.testdir({
    bin: Object.fromEntries(
      Object.entries(programs).map(([name, text]) => [name, `#!/bin/bash\n${text}\n`]),
    ),
    cache: { 'usher-tests': hasKernel ? { kernel: {} } : {} },
  })
  for (const name of Object.keys(programs)) chmodSync(join(folder, 'bin', name), 0o755)
  const { status, stderr } = spawnSync('env', [...asWhom, 'bash', '-s'], {
    input: script,
    encoding: 'utf8',
    env: {
      PATH: `${join(folder, 'bin')}:${process.env['PATH']}`,
      XDG_CACHE_HOME: join(folder, 'cache'),
    },
  })
  return { status, said: stderr }
}

t.test(
  'where all test packages are there, nothing is done',
  { skip: notRoot },
  async t => {
    const { status, said } = runOn(t, { missing: '', hasKernel: true, hasHelm: true })
    t.equal(said, '')
    t.equal(status, 0)
  },
)

t.test('packages that apt can not get skip tests by name', { skip: notRoot }, async t => {
  const { status, said } = runOn(t, {
    missing: 'conntrack',
    hasKernel: false,
    hasHelm: false,
  })
  t.match(said, /apt-get install .* conntrack failed:\nno mirror/)
  t.match(said, 'conntrack is missing: tests with network namespaces')
  t.match(said, 'no kernel: tests with a booted kernel (test/booted-kernel) are skipped')
  t.match(said, 'no helm: tests with the Helm chart (test/e2e) are skipped')
  t.equal(status, 0)
})

t.test('without root no test package is asked for', { skip: notRoot }, async t => {
  const nobody = ['setpriv', '--reuid=65534', '--clear-groups']
  const { status, said } = runOn(
    t,
    { missing: 'conntrack', hasKernel: false, hasHelm: false },
    ...nobody,
  )
  t.match(said, /^test packages: not root on Linux: tests with .* are skipped\n$/)
  t.equal(status, 0)
})
