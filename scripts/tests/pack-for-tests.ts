import { copyFile, mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pack } from '../pack.ts'

const top = fileURLToPath(new URL('../../', import.meta.url))

/**
 * Packs Usher into `dist` of a folder inside of the project: so koffi is found, whose binary can't
 * be packed. See `pack`.
 */
export const packInto = async (
  folder: string,
  options: Parameters<typeof pack>[1],
): Promise<string> => {
  await mkdir(folder, { recursive: true })
  const draft = join(folder, `package.json.${process.pid}`)
  await copyFile(join(top, 'package.json'), draft)
  await rename(draft, join(folder, 'package.json'))
  return pack(join(folder, 'dist'), options)
}

/** For the tests of a run: their environment, by which `test/support/usher-program.ts` finds it. */
export const packForTests = async (): Promise<Readonly<Record<string, string>>> => {
  const [, loopback] = await Promise.all([
    pack(join(top, 'dist')),
    packInto(join(top, '.tap/loopback'), { loopback: true }),
  ])
  return { USHER_TEST_LOOPBACK: loopback }
}
