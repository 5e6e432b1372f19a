import type { EndpointSpec } from './service.ts'

/** One that gets connections, and nobody knows the place of. */
export const readyEndpoint = (address: string): EndpointSpec => ({
  address,
  ready: true,
  serving: true,
  terminating: false,
  nodeName: '',
  zone: '',
  zoneHints: [],
  nodeHints: [],
})
