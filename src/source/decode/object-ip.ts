import { canonicalIp } from '../../util/ip.ts'

/**
 * The canonical spelling of an address in an object of Kubernetes; undefined when it is
 * none. Leading zeros are decimal there (`010.0.0.1` is 10.0.0.1), since objects from
 * before the API refused them may still be stored, and every other part of a cluster reads
 * them so. Elsewhere Usher refuses them (CVE-2021-29923).
 */
export const objectIp = (text: string): string | undefined =>
  canonicalIp(/^[\d.]+$/.test(text) ? text.replaceAll(/(^|\.)0+(?=\d)/g, '$1') : text)
