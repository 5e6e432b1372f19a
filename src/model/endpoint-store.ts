import type { EndpointSlice } from './service.ts'

/**
 * EndpointSlices by the Service whose name they carry. That Service need not exist:
 * endpoints outlive a Service that is deleted and made again.
 */
export class EndpointStore {
  readonly #byService = new Map<string, Map<string, EndpointSlice>>()
  /** Which Service a slice was filed under, by `namespace/name` of the slice. */
  readonly #serviceOf = new Map<string, string>()

  /** In no order. */
  slicesOf(service: string): readonly EndpointSlice[] {
    return [...(this.#byService.get(service)?.values() ?? [])]
  }

  /**
   * Takes in a slice, or with undefined forgets it. Returns the Services, by
   * `namespace/name`, whose endpoints that may change: two when its label moved on.
   */
  set(
    namespace: string,
    name: string,
    slice: EndpointSlice | undefined,
  ): readonly string[] {
    const id = `${namespace}/${name}`
    const before = this.#serviceOf.get(id)
    const after = slice && `${namespace}/${slice.serviceName}`
    if (before !== undefined && before !== after) this.#remove(before, id)
    if (slice !== undefined && after !== undefined) this.#add(after, id, slice)
    return [before, after].filter(service => service !== undefined)
  }

  #add(service: string, id: string, slice: EndpointSlice): void {
    const slices = this.#byService.get(service) ?? new Map<string, EndpointSlice>()
    this.#byService.set(service, slices.set(id, slice))
    this.#serviceOf.set(id, service)
  }

  #remove(service: string, id: string): void {
    this.#serviceOf.delete(id)
    const slices = this.#byService.get(service)
    slices?.delete(id)
    if (slices?.size === 0) this.#byService.delete(service)
  }
}
