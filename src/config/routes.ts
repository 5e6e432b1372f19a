import { parseRoute } from '../source/routes/parse-route.ts'
import type { Route } from '../source/routes/route.ts'
import { BadValue, value, type Value } from './value.ts'

/** A route of a sidecar, parsed. */
export const route: Value<Route> = value('ROUTE', text => {
  try {
    return parseRoute(text)
  } catch (error) {
    throw new BadValue(error instanceof Error ? error.message : String(error))
  }
})
