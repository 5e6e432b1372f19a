import type { EndpointSpec } from './service.ts'

/**
 * Whether UDP flows that go to an endpoint may go on: it serves, maybe while it terminates,
 * or its Service wants it whether it serves or not (publishNotReadyAddresses: ready without
 * serving). As for TCP neither policies nor hints nor an end that has been asked for count.
 */
export const keepsFlows = ({ ready, serving }: EndpointSpec): boolean => ready || serving
