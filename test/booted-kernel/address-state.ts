import type { Machine } from './machine.ts'

/** Addresses and local routes of the node, as text to be compared. */
export const addressState = async (machine: Machine): Promise<string> => {
  const shown = await Promise.all([
    machine.run('ip', '-oneline', 'address'),
    machine.run('ip', 'route', 'show', 'table', 'local'),
    machine.run('ip', '-6', 'route', 'show', 'table', 'local'),
  ])
  return shown.join('')
}
