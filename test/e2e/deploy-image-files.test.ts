// A process of its own: long, and it mostly waits.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { productionPackages, readLock } from '../../scripts/production-packages.ts'
import { top } from '../support/deploy.ts'
import { saidBy, stageNamed } from '../support/dockerfile.ts'
import { worksInstalled } from '../support/installed-usher.ts'

const execute = promisify(execFile)
const skip = process.getuid?.() !== 0 && 'only root may chroot'

/** With their folders; by a tool, which takes a tenth of the time of Node's `cp` for thousands of files. */
const copy = (from: string, paths: readonly string[], to: string): Promise<unknown> =>
  execute('cp', ['--archive', '--parents', ...paths, to], { cwd: from })

/** What a stage has in /usher where npm has done its part. */
const made: Readonly<Record<string, (to: string) => Promise<unknown>>> = {
  build: to => copy(top, ['dist'], to),
  dependencies: async to => {
    const paths = productionPackages(await readLock()).map(([path]) => path)
    // With a package goes what is inside of it; those for other platforms are not there.
    const whole = paths.filter(path => path.lastIndexOf('node_modules/') === 0)
    const there = whole.filter(path => existsSync(join(top, path)))
    return copy(top, there, to)
  },
}

/** The folder that a stage has for /usher, by what its RUN lines do after npm's part. */
const stageFolder = async (name: string, to: string): Promise<string> => {
  await mkdir(to)
  await made[name]?.(to)
  for (const line of saidBy(stageNamed(name), 'RUN')) {
    const own = line.split(/\s*&& /).filter(command => !command.startsWith('npm '))
    if (own.length > 0) await execute('sh', ['-c', own.join(' && ')], { cwd: to })
  }
  return to
}

/** The files of the stage `program`, as its COPY lines say. */
const makeProgram = async (t: Test, folder: string): Promise<void> => {
  const to = join(folder, 'root/usher')
  await mkdir(to, { recursive: true })
  for (const line of saidBy(stageNamed('program'), 'COPY')) {
    const [, stage, path = '', target] =
      /^--from=(\w+) \/usher\/(\S+) \.\/(\S+)$/.exec(line) ?? []
    if (stage === undefined) {
      const words = line.split(' ')
      const last = words.pop() ?? ''
      if (last !== './') t.equal(last, `./${words.join(' ')}`, 'a path is kept as it is')
      await copy(top, words, to)
    } else {
      t.equal(target, path, 'a path is kept as it is')
      await copy(await stageFolder(stage, join(folder, stage)), [path], to)
    }
  }
}

/** Node, and the shared libraries that the loader finds for it. */
const copyNode = async (root: string): Promise<void> => {
  const { stdout } = await execute('ldd', [process.execPath])
  const libraries = Array.from(stdout.matchAll(/(\/\S+) \(0x/g), ([, path = '']) => path)
  await cp(process.execPath, join(root, 'nodejs/bin/node'), { dereference: true })
  for (const path of libraries) await cp(path, join(root, path), { dereference: true })
}

t.test('the image usher needs no tool', { skip }, async t => {
  t.setTimeout(500_000)
  const folder = t.testdir({})
  const root = join(folder, 'root')
  await makeProgram(t, folder)
  t.strictSame((await readdir(join(root, 'usher'))).toSorted(), [
    'LICENSE',
    'deploy',
    'dist',
    'node_modules',
    'package.json',
  ])
  await copyNode(root)
  for (const line of saidBy(stageNamed('usher'), 'COPY')) {
    const [, stage, path = '', target = ''] =
      /^--from=(\w+) \/usher\/(\S+) (\/\S+)$/.exec(line) ?? []
    if (stage !== undefined) await cp(join(folder, stage, path), join(root, target))
  }
  for (const path of ['proc', 'dev', 'tmp']) await mkdir(join(root, path))

  const [entry = ''] = saidBy(stageNamed('usher'), 'ENTRYPOINT')
  const [user = ''] = saidBy(stageNamed('usher'), 'USER')
  const variables = saidBy(stageNamed('usher'), 'ENV').flatMap(line => line.split(' '))
  // A read-only root, as in the DaemonSet, with the kernel's files beside it.
  const enter = `set -e; cd ${root}
    mount --bind . . && cd ${root} && mount --rbind /proc proc && mount --rbind /dev dev
    mount -o remount,bind,ro .
    exec env -i ${variables.join(' ')} $(command -v chroot) --userspec=${user} . "$@"`
  const start = JSON.parse(entry) as string[]
  await worksInstalled(t, ['unshare', '--mount', 'sh', '-c', enter, 'sh', ...start])
})
