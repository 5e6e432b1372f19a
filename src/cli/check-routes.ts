import { faultText, readRoutes, readRoutesText } from '../source/routes/read-routes.ts'
import { ListFiles } from '../source/routes/list-files.ts'
import { count } from './words.ts'

/** One file of routes that was checked. */
export interface CheckedRoutes {
  readonly path: string
  readonly problems: readonly string[]
  /** `routes.yaml: 3 routes, ok`. */
  readonly summary: string
}

/** Those of `paths` that are meant to be files of routes, sound or not. */
export const checkRoutes = async (
  paths: readonly string[],
): Promise<readonly CheckedRoutes[]> => {
  const checked: CheckedRoutes[] = []
  for (const path of paths) {
    const text = await readRoutesText(path).catch(() => '')
    if (isOfRoutes(text)) checked.push(await checkOne(path, text))
  }
  return checked
}

const top = String.raw`^(?:\{\s*)?["']?`

/** By what stands at the top, or a route without that; manifests have an apiVersion there. */
const isOfRoutes = (text: string): boolean =>
  (new RegExp(String.raw`${top}routes?["']?\s*:`, 'im').test(text) ||
    /^[-\s{[]*["']?listen["']?\s*:\s*["']?(?:tcp|udp|unix):/m.test(text)) &&
  !new RegExp(String.raw`${top}(?:apiVersion|kind)["']?\s*:`, 'm').test(text)

const checkOne = async (path: string, text: string): Promise<CheckedRoutes> => {
  const { routes, faults } = await readRoutes(text)
  const ofLists = await new ListFiles().load(routes)
  const all = faults.length + ofLists.length
  const said = all === 0 ? `${count(routes.length, 'route')}, ok` : count(all, 'problem')
  return {
    path,
    problems: [
      ...faults.map(fault => `${path}: ${faultText(fault)}`),
      ...ofLists.map(({ file, message }) => `${file}: ${message}`),
    ],
    summary: `${path}: ${said}`,
  }
}
