import type { EndpointSpec } from './service.ts'

/** One that gets connections, of unknown node and zone. */
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
