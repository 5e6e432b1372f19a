import { isLoopback } from './ip.ts'

/**
 * Which range that means something else on every host an address is in; '' when in none.
 * The API server refuses these as endpoints (ValidateEndpointIP): who may write slices must
 * not reach what listens on each node for itself, or a cloud's metadata service.
 */
export const specialRange = (ip: string): string => {
  if (isLoopback(ip)) return 'loopback (127.0.0.0/8, ::1)'
  if (ip.startsWith('169.254.') || /^fe[89ab]/.test(ip))
    return 'link-local (169.254.0.0/16, fe80::/10)'
  return ''
}
