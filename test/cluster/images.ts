import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  cache,
  kubernetesSources,
  program,
  programsFolder,
  versions,
} from './programs.ts'
import { output, step } from './run-command.ts'

/*
 * Container images of programs of this machine and those that were built, as archives for
 * `ctr images import`: nothing can be pulled, in the cluster's namespaces least of all.
 */

const folder = `${programsFolder}-images`

export interface Image {
  readonly name: string
  /** Names in the cluster, without the registry where `e2e.test` says it. */
  readonly tags: readonly string[]
  readonly config: object
  /** Puts what is in it below `root`. */
  readonly fill: (root: string) => Promise<void>
}

/** Archives of all images, made if they are not in the cache. */
export const imageArchives = async (registry: string): Promise<readonly string[]> => {
  const images = await imagesOf(registry)
  const missing = images.filter(({ name }) => !existsSync(archiveOf(name)))
  if (missing.length > 0)
    await step(`images ${missing.map(({ name }) => name).join(', ')}`, async () => {
      await mkdir(folder, { recursive: true })
      for (const image of missing) await make(image)
    })
  return images.map(({ name }) => archiveOf(name))
}

export const archiveOf = (name: string): string => join(folder, `${name}.tar`)

/** Where the images of the tests are said to come from. */
export const registryOfTests = async (): Promise<string> => {
  const list = await output([program('e2e.test'), '--list-images'])
  const registry = /^(\S+)\/pause:/m.exec(list)?.[1]
  if (registry === undefined) throw new Error('e2e.test --list-images names no pause')
  return registry
}

export const pauseImage = (registry: string): string =>
  `${registry}/pause:${String(versions.images['pause'])}`

export const agnhostImage = (registry: string): string =>
  `${registry}/e2e-test-images/agnhost:${versions.images['agnhost']?.[0]}`

const usualPath = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const imagesOf = async (registry: string): Promise<readonly Image[]> => {
  const { images } = versions
  const tests = `${registry}/e2e-test-images`
  const agnhosts = [images['agnhost'] ?? []].flat()
  const one = (name: string, tag: string, config: object): Image => ({
    name,
    tags: [tag],
    config,
    fill: root => cp(program(name), join(root, name)),
  })
  return [
    {
      name: 'agnhost',
      tags: agnhosts.map(version => `${tests}/agnhost:${version}`),
      config: { Entrypoint: ['/agnhost'], Cmd: ['pause'], Env: [usualPath] },
      fill: fillAgnhost,
    },
    {
      name: 'busybox',
      tags: [`${tests}/busybox:${String(images['busybox'])}`],
      config: { Cmd: ['sh'], Env: [usualPath] },
      fill: fillBase,
    },
    {
      name: 'distroless-iptables',
      tags: [
        `${registry}/build-image/distroless-iptables:${String(images['distroless-iptables'])}`,
      ],
      config: { Cmd: ['sh'], Env: [usualPath] },
      fill: fillIptables,
    },
    one('pause', pauseImage(registry), { Entrypoint: ['/pause'] }),
    one(
      'regression-issue-74839',
      `${tests}/regression-issue-74839:${String(images['regression-issue-74839'])}`,
      { Entrypoint: ['/regression-issue-74839'] },
    ),
    one('coredns', `${registry}/coredns/coredns:v${versions.coredns}`, {
      Entrypoint: ['/coredns'],
    }),
  ]
}

const fillAgnhost = async (root: string): Promise<void> => {
  await fillBase(root)
  // busybox' wget can end with a segmentation fault, and its shell prefers its own applets.
  const real = [
    'sh',
    'curl',
    'wget',
    'dig',
    'ip',
    'ss',
    'bash',
    'socat',
    'conntrack',
    'timeout',
  ]
  await addPrograms(root, [...real, 'nc.openbsd'])
  await rm(join(root, 'usr/bin/nc'), { force: true })
  await symlink('nc.openbsd', join(root, 'usr/bin/nc'))
  await cp(program('agnhost'), join(root, 'agnhost'))
  await symlink('agnhost', join(root, 'agnhost-2'))
  await mkdir(join(root, 'uploads'))
  const porter = join(kubernetesSources, 'test/images/agnhost/porter')
  for (const file of ['localhost.crt', 'localhost.key'])
    await cp(join(porter, file), join(root, file))
}

const xtablesFolder = '/usr/lib/x86_64-linux-gnu/xtables'

export const fillIptables = async (root: string): Promise<void> => {
  await fillBase(root)
  const tables = ['iptables', 'ip6tables'].flatMap(one => [
    one,
    `${one}-save`,
    `${one}-restore`,
  ])
  await addPrograms(root, ['conntrack', 'nft', 'bash', ...tables])
  const extensions = (await readdir(xtablesFolder)).map(one => join(xtablesFolder, one))
  for (const one of extensions) await addFile(root, one)
}

const folders = [
  'etc',
  'tmp',
  'var',
  'root',
  'proc',
  'sys',
  'dev',
  'run',
  'home',
  'opt',
  'usr/bin',
  'usr/sbin',
  'usr/lib',
  'usr/lib64',
]

/** Folders, users, and busybox under all of its names. */
const fillBase = async (root: string): Promise<void> => {
  for (const one of folders) await mkdir(join(root, one), { recursive: true })
  await output(['chmod', '1777', join(root, 'tmp')])
  for (const one of ['bin', 'sbin', 'lib', 'lib64'])
    await symlink(`usr/${one}`, join(root, one))
  await cp('/bin/busybox', join(root, 'usr/bin/busybox'))
  const applets = (await output(['busybox', '--list'])).split('\n')
  for (const one of applets)
    if (one !== '' && one !== 'busybox')
      await symlink('busybox', join(root, 'usr/bin', one))
  // The tests run containers as these.
  await writeFile(
    join(root, 'etc/passwd'),
    [
      'root:x:0:0:root:/root:/bin/sh',
      'nobody:x:65534:65534::/:/bin/false',
      'user-defined-in-image:x:1000:1000::/home:/bin/sh',
      '',
    ].join('\n'),
  )
  await writeFile(join(root, 'etc/group'), 'root:x:0:\nnobody:x:65534:\n')
  await writeFile(join(root, 'etc/nsswitch.conf'), 'hosts: files dns\n')
}

/** Programs of this machine with the libraries that they need. */
export const addPrograms = async (
  root: string,
  names: readonly string[],
): Promise<void> => {
  for (const name of names) {
    const path = (await output(['bash', '-c', `command -v "$1"`, 'which', name])).trim()
    for (const place of ['usr/bin', 'usr/sbin'])
      await rm(join(root, place, name), { force: true })
    await addFile(root, path.replace(/^\/(s?bin)\//, '/usr/$1/'))
  }
}

const addFile = async (root: string, path: string): Promise<void> => {
  await copyTo(root, path)
  const libraries = await output(['ldd', path]).catch(() => '')
  for (const [library] of libraries.matchAll(/\/\S+\.so\S*/g))
    if (!existsSync(join(root, library))) await copyTo(root, library)
}

const copyTo = async (root: string, path: string): Promise<void> => {
  const to = join(root, path)
  await mkdir(dirname(to), { recursive: true })
  await cp(path, to, { dereference: true, force: true })
}

/** A docker archive of one layer. */
export const make = async ({ name, tags, config, fill }: Image): Promise<void> => {
  const work = join(cache, `image-${name}`)
  const root = join(work, 'root')
  await rm(work, { recursive: true, force: true })
  await mkdir(root, { recursive: true })
  await fill(root)
  const layer = join(work, 'layer.tar')
  await output([
    'tar',
    '--sort=name',
    '--owner=0',
    '--group=0',
    '-C',
    root,
    '-cf',
    layer,
    '.',
  ])
  const [digest = ''] = (await output(['sha256sum', layer])).split(' ')
  const image = JSON.stringify({
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config,
    rootfs: { type: 'layers', diff_ids: [`sha256:${digest}`] },
    history: [{ created: '2026-01-01T00:00:00Z' }],
  })
  const Config = `${createHash('sha256').update(image).digest('hex')}.json`
  await writeFile(join(work, Config), image)
  const manifest = [{ Config, RepoTags: tags, Layers: [basename(layer)] }]
  await writeFile(join(work, 'manifest.json'), JSON.stringify(manifest))
  const draft = `${archiveOf(name)}.new`
  await output(['tar', '-C', work, '-cf', draft, Config, 'layer.tar', 'manifest.json'])
  await rename(draft, archiveOf(name))
  await rm(work, { recursive: true })
}
