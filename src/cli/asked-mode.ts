import type { Log } from '../observe/log.ts'
import type { ModeRequest } from '../mode/choose-mode.ts'
import type { ModeAnnotation } from '../source/decode/node.ts'

/**
 * What is asked for, by the Node's annotation where nothing else says: as kube-proxy did
 * from 1.1 to 1.5, to try a mode on some nodes of a cluster. Read once. Never rejects: a Node
 * that can't be read asks for nothing.
 */
export const askedMode = async (
  request: ModeRequest,
  annotation: () => Promise<ModeAnnotation | undefined>,
  log: Log,
): Promise<ModeRequest> => {
  if (request.mode !== '') return request
  try {
    const found = await annotation()
    if (found === undefined) return request
    const { name, value } = found
    if (value === 'userspace' || value === 'iptables' || value === 'ipvs')
      return { mode: value, by: `annotation ${name} of the Node` }
    log.warn(
      { annotation: name, value },
      'this annotation of the Node names no mode; give userspace, iptables or ipvs',
    )
  } catch (error) {
    const why = (error as Error).message
    log.info({ why }, 'the Node could not be asked for its proxy mode')
  }
  return request
}
