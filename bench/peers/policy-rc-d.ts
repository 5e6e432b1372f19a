import { readFile, rm, writeFile } from 'node:fs/promises'

/** 101: forbidden, see invoke-rc.d(8) and deb-systemd-invoke. */
const text = `#!/bin/sh
# Placed by "usher bench" while it installs packages whose services are not to start.
exit 101
`

/**
 * Does `what` while Debian's maintainer scripts are forbidden to start services: by a
 * policy-rc.d at `file`, which is removed at the end, whatever becomes of it. One that is
 * one of other origin stays as it is.
 */
export const withoutServices = async (
  file: string,
  say: (line: string) => void,
  what: () => Promise<void>,
): Promise<void> => {
  if (!(await place(file))) {
    say(`${file} is there already, and decides whether services start.`)
    return what()
  }
  try {
    await what()
  } finally {
    await rm(file, { force: true })
  }
}

/** False when another's is there. One of ours that was left behind by a kill is ours. */
const place = async (file: string): Promise<boolean> => {
  try {
    await writeFile(file, text, { flag: 'wx', mode: 0o755 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return (await readFile(file, 'utf8')) === text
  }
}
