import type { OptionsOf } from '../config/options.ts'
import type { StatusDocument } from '../observe/status.ts'
import { fetchStatus } from './admin-client.ts'
import { statusOverControl } from './control-client.ts'

/** An answer later than that is none. */
export const answerMs = 10_000

/** The status of the Usher at its control socket, where one is given, else at its metrics address. */
export const askStatus = async ({
  controlSocket,
  address,
}: Pick<OptionsOf<'get'>, 'controlSocket' | 'address'>): Promise<StatusDocument> =>
  controlSocket === ''
    ? (await fetchStatus(address, answerMs)).document
    : statusOverControl(controlSocket)
