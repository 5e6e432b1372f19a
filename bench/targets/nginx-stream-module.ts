import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { outputOf } from './program.ts'

const usualPlaces = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules']

/**
 * What nginx has to load for `stream`: the path of a module, '' when it is built in,
 * undefined when it has none.
 */
export const nginxStreamModule = async (command: string): Promise<string | undefined> => {
  const built = await outputOf(command, ['-V'])
  if (/--with-stream(?:\s|$)/m.test(built)) return ''
  const own = /--modules-path=(\S+)/.exec(built)?.[1]
  return [...(own === undefined ? [] : [own]), ...usualPlaces]
    .map(place => join(place, 'ngx_stream_module.so'))
    .find(file => existsSync(file))
}
