import { cp, mkdir, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { version } from '../../src/cli/version.ts'
import { addPrograms, archiveOf, fillIptables, type Image, make } from './images.ts'
import { type Node, on } from './nodes.ts'
import { cache, program, top } from './programs.ts'
import { output, step } from './run-command.ts'

export const usherImage = `docker.io/library/usher:${version()}-tools`

/** As the Dockerfile and the systemd units have it. */
export const nodeOptions = '--max-semi-space-size=2'

/** What the Dockerfile's `tools` has, from this machine's programs and this tree's `dist`. */
const image: Image = {
  name: 'usher',
  tags: [usherImage],
  config: {
    Entrypoint: ['usher'],
    Cmd: ['run'],
    User: '65532:65532',
    WorkingDir: '/usher',
    Env: [
      'NODE_ENV=production',
      `NODE_OPTIONS=${nodeOptions}`,
      'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ],
  },
  fill: async root => {
    await fillIptables(root)
    const backEnds = ['iptables', 'ip6tables'].flatMap(name =>
      ['nft', 'legacy'].flatMap(mode =>
        ['', '-save', '-restore'].map(verb => `${name}-${mode}${verb}`),
      ),
    )
    await addPrograms(root, ['ip', 'ss', 'ipset', 'ipvsadm', 'setpriv', 'sleep', 'node'])
    await addPrograms(root, backEnds)
    await cp('/etc/iproute2', join(root, 'etc/iproute2'), { recursive: true })
    const inside = join(root, 'usher')
    await mkdir(inside, { recursive: true })
    await symlink('/usher/dist/usher.js', join(root, 'usr/bin/usher'))
    for (const one of ['dist', 'deploy/examples', 'package.json', 'LICENSE']) {
      await mkdir(dirname(join(inside, one)), { recursive: true })
      await cp(join(top, one), join(inside, one), { recursive: true })
    }
    await cp(
      join(await productionModules(), 'node_modules'),
      join(inside, 'node_modules'),
      {
        recursive: true,
        verbatimSymlinks: true,
      },
    )
  },
}

/** The modules that the image's `npm ci` installs. */
const productionModules = async (): Promise<string> => {
  const folder = join(cache, 'usher-modules')
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  for (const one of ['package.json', 'package-lock.json', '.npmrc'])
    await cp(join(top, one), join(folder, one))
  const flags = [
    '--omit=dev',
    '--omit=peer',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ]
  await output(['npm', 'ci', ...flags], { cwd: folder })
  return folder
}

/** Made anew each time: it is of the tree as it is now. */
export const makeUsherImage = (): Promise<void> =>
  step('the image of Usher', () => make(image))

export const loadUsherImage = async (nodes: readonly Node[]): Promise<void> => {
  for (const node of nodes)
    await output(
      on(node, program('ctr'), '-n', 'k8s.io', 'images', 'import', archiveOf(image.name)),
    )
}
