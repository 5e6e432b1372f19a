const decimal = /^(0|[1-9]\d*)$/

/**
 * Whether one resourceVersion is older than another: they are decimal numbers that may be
 * compared (KEP-5504; etcd's revisions). False where one is something else: then a watch's
 * order has to be trusted.
 */
export const isOlder = (a: string, b: string): boolean =>
  decimal.test(a) &&
  decimal.test(b) &&
  (a.length < b.length || (a.length === b.length && a < b))
