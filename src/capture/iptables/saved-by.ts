import type { Backend } from '../../kernel/xtables/backend.ts'
import { readSaved } from './saved.ts'
import type { Saved } from './restore-text.ts'

/** What Usher has there; nothing where the kernel has no such tables. */
export const savedBy = async (backend: Backend): Promise<Saved> => {
  const [filter, nat] = await Promise.all([backend.save('filter'), backend.save('nat')])
  return { filter: await readSaved(filter), nat: await readSaved(nat) }
}
