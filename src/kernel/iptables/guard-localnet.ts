import type { Backend } from '../xtables/backend.ts'
import { localnetRestore } from './restore-text.ts'
import { readWhole } from './tables-there.ts'

/**
 * Keeps packets from elsewhere away from 127.0.0.0/8, which is to be done before
 * route_localnet is set (CVE-2020-8558), for one who writes no other rules. What else is in
 * the chain stays; one that has the rule is left as it is.
 */
export const guardLocalnet = async (backend: Backend): Promise<void> => {
  const saved = await readWhole(await backend.save('filter'), 'filter')
  const text = await localnetRestore(saved)
  if (text !== '') await backend.restore(text)
}
