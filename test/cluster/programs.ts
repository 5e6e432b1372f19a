import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { output, step } from './run-command.ts'

/** This folder. */
export const here = dirname(fileURLToPath(import.meta.url))
/** The tree that is tried. */
export const top = join(here, '../..')

const versionsText = readFileSync(join(here, 'versions.json'), 'utf8')
export const versions = JSON.parse(versionsText) as {
  readonly go: string
  readonly kubernetes: string
  readonly etcd: string
  readonly containerd: string
  readonly coredns: string
  readonly images: Readonly<Record<string, string | readonly string[]>>
}

/** Kept between runs, outside of the tree: programs, sources, images. */
export const cache =
  process.env['USHER_CLUSTER_CACHE'] ?? join(homedir(), '.cache', 'usher-cluster')
const key = createHash('sha256').update(versionsText).digest('hex').slice(0, 8)
const bin = join(cache, `programs-${key}`)
const sources = join(cache, 'sources')

export const program = (name: string): string => join(bin, name)
export const programsFolder = bin

/** Where the sources of Kubernetes are that its programs were built from. */
export const kubernetesSources = join(sources, `kubernetes-${versions.kubernetes}`)

/** One go.mod and what is built in it. */
interface Module {
  readonly name: string
  readonly module: string
  readonly version: string
  /** Of the program `name`, what its package is; `test` for a program of tests. */
  readonly builds: Readonly<Record<string, string>>
  readonly flags?: readonly string[]
  readonly minutes: number
  readonly patch?: (goMod: string) => string
}

/** Published modules have no staging folder: `replace` leads to the modules it is published as. */
const withPublishedStaging = (goMod: string): string =>
  goMod.replaceAll(
    /(k8s\.io\/[a-z-]+) => \.\/staging\/src\/k8s\.io\/[a-z-]+/g,
    `$1 => $1 v${versions.kubernetes.replace(/^1/, '0')}`,
  )

const withoutReplaces = (goMod: string): string =>
  goMod.replaceAll(/^replace \([^)]*\)/gm, '').replaceAll(/^replace .*$/gm, '')

const gitVersion = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version']
  .map(
    at =>
      `-X ${at}.gitVersion=v${versions.kubernetes} -X ${at}.gitMajor=1 -X ${at}.gitMinor=${versions.kubernetes.split('.')[1]} -X ${at}.gitTreeState=clean`,
  )
  .join(' ')

const modules: readonly Module[] = [
  {
    name: 'kubernetes',
    module: 'k8s.io/kubernetes',
    version: versions.kubernetes,
    builds: {
      'kube-apiserver': './cmd/kube-apiserver',
      'kube-controller-manager': './cmd/kube-controller-manager',
      'kube-scheduler': './cmd/kube-scheduler',
      kubelet: './cmd/kubelet',
      'kube-proxy': './cmd/kube-proxy',
      kubectl: './cmd/kubectl',
      agnhost: './test/images/agnhost',
      'regression-issue-74839': './test/images/regression-issue-74839',
      'e2e.test': 'test ./test/e2e',
      ginkgo: 'github.com/onsi/ginkgo/v2/ginkgo',
    },
    flags: ['-ldflags', `-s -w ${gitVersion}`],
    minutes: 18,
    patch: withPublishedStaging,
  },
  {
    name: 'etcd',
    module: 'go.etcd.io/etcd/server/v3',
    version: versions.etcd,
    builds: { etcd: '.' },
    minutes: 1.5,
    patch: withoutReplaces,
  },
  {
    name: 'containerd',
    module: 'github.com/containerd/containerd/v2',
    version: versions.containerd,
    builds: {
      containerd: './cmd/containerd',
      'containerd-shim-runc-v2': './cmd/containerd-shim-runc-v2',
      ctr: './cmd/ctr',
    },
    flags: [
      '-tags',
      'no_btrfs no_zfs no_devmapper',
      '-ldflags',
      `-s -w -X github.com/containerd/containerd/v2/version.Version=v${versions.containerd}`,
    ],
    minutes: 3,
  },
  {
    name: 'coredns',
    module: 'github.com/coredns/coredns',
    version: versions.coredns,
    builds: { coredns: '.' },
    minutes: 4,
  },
]

/** Names of programs that are not in the cache. */
export const missingPrograms = (): readonly string[] =>
  [...modules.flatMap(({ builds }) => Object.keys(builds)), 'pause'].filter(
    name => !existsSync(program(name)),
  )

/** Builds what is missing, with Go from the PATH and its module proxy. */
export const buildPrograms = async (): Promise<void> => {
  const missing = new Set(missingPrograms())
  if (missing.size === 0) return
  await checkGo()
  await mkdir(bin, { recursive: true })
  for (const one of modules) {
    const wanted = Object.entries(one.builds).filter(([name]) => missing.has(name))
    if (wanted.length > 0) await buildModule(one, wanted)
  }
  if (missing.has('pause'))
    await step('building pause', () => goBuild(here, 'pause', './pause.go'))
}

const checkGo = async (): Promise<void> => {
  const found = await output(['go', 'env', 'GOVERSION']).catch(() => '')
  const [, major = 0, minor = 0] = /^go(\d+)\.(\d+)/.exec(found) ?? []
  const [wantedMajor = 0, wantedMinor = 0] = versions.go.split('.').map(Number)
  const isEnough =
    Number(major) > wantedMajor ||
    (Number(major) === wantedMajor && Number(minor) >= wantedMinor)
  if (!isEnough)
    throw new Error(
      `Go ${versions.go} or newer is needed to build Kubernetes; in the PATH is ${found.trim() || 'none'}`,
    )
}

const buildModule = async (
  { name, module, version, flags, minutes, patch }: Module,
  wanted: readonly (readonly [string, string])[],
): Promise<void> => {
  const folder = join(sources, `${name}-${version}`)
  await step(`sources of ${name} ${version}`, () =>
    unpack(`${module}@v${version}`, folder, patch),
  )
  const names = wanted.map(([one]) => one).join(', ')
  await step(`building ${names} (some ${minutes} min on two cores)`, async () => {
    for (const [one, what] of wanted) await goBuild(folder, one, what, flags)
  })
}

const goEnvironment = { GOWORK: 'off', CGO_ENABLED: '0' }

const unpack = async (
  module: string,
  folder: string,
  patch?: (goMod: string) => string,
): Promise<void> => {
  const told = await output(['go', 'mod', 'download', '-json', module], {
    cwd: cache,
    env: goEnvironment,
  })
  const { Dir: from } = JSON.parse(told) as { Dir: string }
  await rm(folder, { recursive: true, force: true })
  await mkdir(sources, { recursive: true })
  await cp(from, folder, { recursive: true })
  await output(['chmod', '-R', 'u+w', folder])
  for (const one of ['go.work', 'go.work.sum', 'vendor'])
    await rm(join(folder, one), { recursive: true, force: true })
  const goMod = join(folder, 'go.mod')
  if (patch !== undefined) await writeFile(goMod, patch(await readFile(goMod, 'utf8')))
}

/** In its place when it is whole. */
const goBuild = async (
  folder: string,
  name: string,
  what: string,
  flags: readonly string[] = ['-ldflags', '-s -w'],
): Promise<void> => {
  const draft = program(`${name}.new`)
  const [verb, from] = what.startsWith('test ')
    ? [['test', '-c'], what.slice('test '.length)]
    : [['build'], what]
  const always = ['-mod=mod', '-buildvcs=false', ...flags, '-o', draft]
  await output(['go', ...verb, ...always, from], { cwd: folder, env: goEnvironment })
  await rename(draft, program(name))
}
