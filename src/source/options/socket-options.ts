import { withAccess } from '../../util/unix-address.ts'
import { described, checkedText, type Given } from './option-kinds.ts'

const modeForm = "three octal digits as a text, like '660'"
const ownerForm = "numbers of a user and a group as a text, like '999:999'"
const owner = /^(\d{1,9})?(?::(\d{1,9}))?$/

/** Who may connect to a route that listens at a path. */
export const socketOptions = {
  socketMode: described(
    checkedText(given => /^0?[0-7]{3}$/.test(given), modeForm, '^0?[0-7]{3}$', '600'),
    'Of a route that listens at a path: the mode of its file, in octal digits; who may write to it may connect. 660 by default.',
  ),
  socketOwner: described(
    checkedText(
      given => given !== '' && owner.test(given),
      ownerForm,
      String.raw`^(\d{1,9})?(:\d{1,9})?$`,
      '999:999',
    ),
    'Of a route that listens at a path: the numbers of its file’s user and group (`id postgres` prints them), or of one of them: `999`, `:999`. Those of Usher by default; another user takes root.',
  ),
}

/** Where to listen, with who may connect; of options without faults. */
export const socketAddress = (
  address: string,
  raw: Given<typeof socketOptions>,
): string => {
  const [, uid, gid] = owner.exec(raw.socketOwner ?? '') ?? []
  if (!address.startsWith('unix:/')) return address
  return withAccess(address, { mode: raw.socketMode, uid, gid })
}
