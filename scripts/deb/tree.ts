import { chmod, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { bashScript } from '../../src/cli/completion/bash.ts'
import { fishScript } from '../../src/cli/completion/fish.ts'
import { commandLines } from '../../src/cli/completion/vocabulary.ts'
import { zshScript } from '../../src/cli/completion/zsh.ts'
import { version } from '../../src/cli/version.ts'
import { manPages } from '../man-pages.ts'
import { isNotice } from '../notices.ts'
import { productionPackages, readLock } from '../production-packages.ts'
import { maintainer } from './control-files.ts'

const top = fileURLToPath(new URL('../../', import.meta.url))

/**
 * What of a library Node never loads on Debian: types, texts, tests, settings of tools, `prebuilds`, which
 * are for another runtime (Bare), and what is for musl.
 */
const unneeded = [
  /\.(map|md|markdown|ts|mts|cts|flow|html|ya?ml)$/i,
  /\/(tests?|docs|examples?|benchmarks?|prebuilds|musl_\w+)$/i,
  /\/\.[^/]*$/,
]

const isNeeded = (file: string): boolean =>
  isNotice(file) || !unneeded.some(pattern => pattern.test(file))

/** Not to measure with, nor to find the source by. */
const isForUse = (file: string): boolean => !/\/bench[^/]*$|\.map$/.test(file)

const copyProgram = async (lib: string): Promise<void> => {
  await mkdir(lib, { recursive: true })
  await cp(join(top, 'package.json'), join(lib, 'package.json'))
  await cp(join(top, 'dist'), join(lib, 'dist'), { recursive: true, filter: isForUse })
  const examples = 'deploy/examples' // `usher demo` has its Services from there.
  await cp(join(top, examples), join(lib, examples), { recursive: true })
  for (const [path] of productionPackages(await readLock())) {
    const from = join(top, path)
    if (!existsSync(from)) continue // For another platform.
    await cp(from, join(lib, path), {
      recursive: true,
      // Packages inside of it are in the list by themselves.
      filter: file => {
        const inside = relative(from, file)
        return (
          !inside.startsWith('node_modules') && (inside === '' || isNeeded(`/${inside}`))
        )
      },
    })
  }
}

/** The program, with Debian's own Node. */
const linkProgram = async (tree: string): Promise<void> => {
  const main = join(tree, 'usr/lib/usher/dist/usher.js')
  const text = await readFile(main, 'utf8')
  await writeFile(main, text.replace('#!/usr/bin/env node', '#!/usr/bin/node'))
  await chmod(main, 0o755)
  await mkdir(join(tree, 'usr/bin'), { recursive: true })
  await symlink('../lib/usher/dist/usher.js', join(tree, 'usr/bin/usher'))
}

/** As `gzip -n9`: without a time, so that it is the same each time. */
const zipped = (text: string): Buffer => gzipSync(text, { level: 9 })

const changelog = (date: Date): string => {
  const when = date.toUTCString().replace('GMT', '+0000')
  return `usher (${version()}) unstable; urgency=medium

  * What has changed is in NEWS.gz beside this file.

 -- ${maintainer}  ${when}
`
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: usher-proxy

Files: *
Copyright: the authors of Usher
License: Apache-2.0
 On Debian systems the text of the license is in
 /usr/share/common-licenses/Apache-2.0.
Comment:
 The libraries in /usr/lib/usher/node_modules have licenses of their own, which
 are beside each of them; those of libraries that the programs in
 /usr/lib/usher/dist contain are in THIRD-PARTY-NOTICES.txt there.
`

/** Everything that is installed; files are made with the mode 644, folders and programs 755. */
export const fillTree = async (tree: string, date: Date): Promise<void> => {
  await copyProgram(join(tree, 'usr/lib/usher'))
  await linkProgram(tree)
  const lines = commandLines()
  const deploy = (path: string): Promise<string> =>
    readFile(join(top, 'deploy', path), 'utf8')
  const files: Record<string, string | Buffer> = {
    'etc/usher/usher.env': await deploy('debian/usher.env'),
    'usr/lib/systemd/system/usher.service': await deploy('systemd/usher.service'),
    'usr/lib/systemd/system/usher-sidecar@.service': await deploy(
      'systemd/usher-sidecar@.service',
    ),
    'usr/share/bash-completion/completions/usher': bashScript(lines),
    'usr/share/zsh/vendor-completions/_usher': zshScript(lines),
    'usr/share/fish/vendor_completions.d/usher.fish': fishScript(lines),
    'usr/share/doc/usher/copyright': copyright,
    'usr/share/doc/usher/changelog.gz': zipped(changelog(date)),
    'usr/share/doc/usher/NEWS.gz': zipped(
      await readFile(join(top, 'CHANGELOG.md'), 'utf8'),
    ),
    'usr/share/doc/usher/examples/routes.yaml': await deploy('examples/routes.yaml'),
    'usr/share/lintian/overrides/usher': await deploy('debian/lintian-overrides'),
  }
  for (const [name, page] of manPages(date))
    files[`usr/share/man/man1/${name}.gz`] = zipped(page)
  for (const [path, content] of Object.entries(files)) {
    const file = join(tree, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  }
}
