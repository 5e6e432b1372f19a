import type { EndpointSlice } from './service.ts'

/**
 * EndpointSlices by the Service whose name they carry. That Service need not exist:
 * endpoints outlive a Service that is deleted and made again.
 */
export class EndpointStore {
  readonly #byService = new Map<string, Map<string, EndpointSlice>>()
  /** Which Service a slice was filed under, by `namespace/name` of the slice. */
  readonly #serviceOf = new Map<string, string>()

  /** By `namespace/name` of the slice. */
  get(id: string): EndpointSlice | undefined {
    const service = this.#serviceOf.get(id)
    return service === undefined ? undefined : this.#byService.get(service)?.get(id)
  }

  /** In no order. */
  slicesOf(service: string): readonly EndpointSlice[] {
    return [...(this.#byService.get(service)?.values() ?? [])]
  }

  /** The Services with a slice for which `holds`. */
  servicesWith(holds: (slice: EndpointSlice) => boolean): readonly string[] {
    const found: string[] = []
    for (const [service, slices] of this.#byService) {
      if ([...slices.values()].some(holds)) found.push(service)
    }
    return found
  }

  /**
   * Takes in a slice by its `namespace/name`, or with undefined forgets it. Returns the
   * Services whose endpoints that may change: two when its label moved on.
   */
  set(id: string, slice: EndpointSlice | undefined): readonly string[] {
    const before = this.#serviceOf.get(id)
    const after = slice && `${slice.namespace}/${slice.serviceName}`
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
