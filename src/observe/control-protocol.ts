import * as v from 'valibot'
import { isNot, wholeNumber } from '../util/schema.ts'

// What goes over the control socket: POST with JSON, and JSON for an answer. Commands that are to
// come have a path and a schema here; fields that a request has and this Usher does not know are
// refused, as an order that is carried out in part is worse than none.

const routes = v.pipe(
  v.array(v.string(isNot('the name of a route')), isNot('a list of names')),
  v.minLength(1, 'is empty; name a route'),
  v.maxLength(1000, 'names more than 1000 routes'),
)

/** 576 h, the longest that a timer can be set to. */
const longestMs = 576 * 3_600_000
const msForm = `a number of milliseconds from 1 to ${longestMs}`

/** POST /pause */
export const pauseRequest = v.strictObject({
  routes,
  /** Open connections are reset, too. */
  reset: v.optional(v.boolean(isNot('true or false')), false),
  /** When it ends by itself; without it: when the route is resumed. */
  forMs: v.optional(wholeNumber(1, longestMs, msForm)),
})

/** POST /resume */
export const resumeRequest = v.strictObject({ routes })

/** What became of each ServicePort that was named. */
export const ordered = v.object({
  routes: v.array(
    v.object({
      /** `namespace/name:port`, or a route's name alone. */
      route: v.string(),
      /** Whether it was paused before. */
      wasPaused: v.boolean(),
      /** When the pause began and when it ends by itself, ISO 8601; null: it is not paused. */
      paused: v.nullable(v.object({ since: v.string(), until: v.nullable(v.string()) })),
    }),
  ),
  /** What was named and could not be, in words. */
  notes: v.array(v.string()),
})

/** In place of that, with a status from 400 on: nothing was done, unless the code says otherwise. */
export const refused = v.object({
  error: v.object({
    /**
     * `BAD_REQUEST`, `UNKNOWN_ROUTE`, `NOT_TCP`, `KERNEL_MODE`, or `NOT_APPLIED`: it was taken,
     * and is not in effect yet, or never will be as Usher is ending.
     */
    code: v.string(),
    message: v.string(),
  }),
})

export type PauseRequest = v.InferOutput<typeof pauseRequest>
export type ResumeRequest = v.InferOutput<typeof resumeRequest>
export type Ordered = v.InferOutput<typeof ordered>
export type Refused = v.InferOutput<typeof refused>
