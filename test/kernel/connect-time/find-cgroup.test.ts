import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findCgroup } from '../../../src/kernel/connect-time/probe.ts'

const v2 = (path: string, group = '/'): string =>
  `31 24 0:27 ${group} ${path} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate`
const v1 = '33 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory'
const root = '24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw'

interface Proc {
  readonly mounts: readonly string[]
  readonly own?: string
  /** Of process 1. */
  readonly first?: string
  /** Whether this process is in the first cgroup namespace. */
  readonly isHost?: boolean
}

/** A /proc as the kernel has it, with the files that are asked for. */
const procWith = (
  t: Test,
  { mounts, own = '0::/usher', first = '0::/init.scope', isHost = true }: Proc,
): string => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-proc-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const each of ['self/ns', '1']) mkdirSync(join(folder, each), { recursive: true })
  writeFileSync(join(folder, 'self/mountinfo'), `${[root, ...mounts].join('\n')}\n`)
  writeFileSync(join(folder, 'self/cgroup'), `${own}\n`)
  writeFileSync(join(folder, '1/cgroup'), `${first}\n`)
  const namespace = isHost ? 4_026_531_835 : 4_026_532_999
  symlinkSync(`cgroup:[${namespace}]`, join(folder, 'self/ns/cgroup'))
  return folder
}

const found = (path: string): object => ({ path, includesSelf: true })

const cases: Readonly<Record<string, readonly [Proc, object]>> = {
  'v2 only': [{ mounts: [v2('/sys/fs/cgroup')] }, found('/sys/fs/cgroup')],
  'v2 beside v1': [
    {
      mounts: [v1, v2('/sys/fs/cgroup/unified')],
      own: '4:memory:/user.slice\n0::/user.slice',
    },
    found('/sys/fs/cgroup/unified'),
  ],
  'v1 only': [
    { mounts: [v1], own: '4:memory:/' },
    { reason: 'cgroup v2 is not mounted here (cgroup v1 has no such hooks)' },
  ],
  'a container that sees its own': [
    {
      mounts: [v2('/sys/fs/cgroup')],
      own: '0::/',
      first: '0::/',
      isHost: false,
    },
    { reason: /^this container sees only its own cgroup: mount the host's/ },
  ],
  "a container with the host's too": [
    {
      mounts: [v2('/sys/fs/cgroup'), v2('/host/cgroup', '/../../..')],
      own: '0::/',
      first: '0::/',
      isHost: false,
    },
    found('/host/cgroup'),
  ],
  'the highest of those above it': [
    {
      mounts: [
        v2('/pod', '/..'),
        v2('/host', '/../../../..'),
        v2('/kubepods', '/../..'),
        v2('/other', '/../other'),
      ],
      own: '0::/',
      first: '0::/',
      isHost: false,
    },
    found('/host'),
  ],
  "a container in the host's cgroup namespace": [
    { mounts: [v2('/sys/fs/cgroup')], own: '0::/kubepods/pod1/c1' },
    found('/sys/fs/cgroup'),
  ],
  'a node of kind, whose system has groups of its own': [
    { mounts: [v2('/sys/fs/cgroup')], own: '0::/kubelet/pod1', isHost: false },
    found('/sys/fs/cgroup'),
  ],
  'only a part of it': [
    { mounts: [v2('/sys/fs/cgroup', '/kubepods/pod1')] },
    { reason: 'only a part of cgroup v2 is mounted here, not its root' },
  ],
  'a path with white space and a backslash': [
    { mounts: [v2(String.raw`/my\040groups\134here`)] },
    found(String.raw`/my groups\here`),
  ],
}

for (const [what, [proc, wanted]] of Object.entries(cases))
  t.test(`the node's cgroup: ${what}`, async t => {
    t.match(await findCgroup('', procWith(t, proc)), wanted)
  })

t.test('one that was asked for', async t => {
  const groups = mkdtempSync(join(tmpdir(), 'usher-groups-'))
  t.teardown(() => rmSync(groups, { recursive: true }))
  for (const each of ['', 'a', 'a/usher', 'b']) {
    mkdirSync(join(groups, each), { recursive: true })
    writeFileSync(join(groups, each, 'cgroup.controllers'), '')
  }
  mkdirSync(join(groups, 'plain'))
  const proc = procWith(t, { mounts: [v2(groups)], own: '0::/a/usher' })
  const ask = (name: string) => findCgroup(join(groups, name), proc)
  for (const mine of ['', 'a', 'a/usher'])
    t.same(await ask(mine), found(join(groups, mine)), `${mine} has this process`)
  t.same(await ask('b'), { path: join(groups, 'b'), includesSelf: false })
  const none = { plain: 'is no cgroup of cgroup v2', 'not there': 'is not there' }
  for (const [name, what] of Object.entries(none))
    t.same(await ask(name), {
      reason: `${join(groups, name)} (--connect-time-cgroup) ${what}; cgroup v2 is mounted at ${groups}`,
    })
})
