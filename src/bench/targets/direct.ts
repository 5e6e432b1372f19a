import type { Target } from './target.ts'

/** No proxy: what the client, the backend and the kernel reach by themselves. */
export const direct: Target = {
  name: 'direct',
  start: async backends => ({
    ports: backends,
    complaint: () => '',
    stop: async () => undefined,
  }),
}
