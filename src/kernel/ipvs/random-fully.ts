import type { Backend } from '../xtables/backend.ts'

/** Whether MASQUERADE takes `--random-fully`: iptables from 1.6.2 on. */
export const randomFully = ({ detail }: Pick<Backend, 'detail'>): boolean => {
  const [major = 0, minor = 0, patch = 0] =
    / (\d+)\.(\d+)(?:\.(\d+))?/
      .exec(detail)
      ?.slice(1)
      .map(part => Number(part ?? 0)) ?? []
  return major * 1e6 + minor * 1e3 + patch >= 1_006_002
}
