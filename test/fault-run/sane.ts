import type { Report } from './report.ts'

const qps = 5
const burst = 10
/** Services, slices, the Node, ServiceCIDRs. */
const reflectors = 4
/**
 * What one attempt may ask: where the server is, a list by streaming, one in pages after
 * all, and a watch.
 */
const requestsPerAttempt = 4
const mostMemory = 250 << 20

/** What was not sane about a run, in words; empty when all was. */
export const checkReport = (report: Report): string[] => {
  const found: string[] = []
  // clientConnection's limit. What was sent within a second may arrive within less.
  if (report.peakPerSecond > burst + qps + 1)
    found.push(`${report.peakPerSecond} requests in one second`)
  const most = mostRequests(report)
  if (report.requests > most)
    found.push(`${report.requests} requests, where ${Math.round(most)} would do`)
  if (report.memory > mostMemory) found.push(`${report.memory} bytes of memory`)
  return found
}

/**
 * Waits double from 0.8 s to 15 s at least: within 30 s there are 6 attempts, then one in
 * 15 s. A healthy minute begins anew. A reload is one attempt more.
 */
const mostRequests = ({ ms, reloads }: Report): number => {
  const seconds = ms / 1000
  const attempts = 6 * (1 + Math.floor(seconds / 60)) + seconds / 15 + reloads
  return attempts * reflectors * requestsPerAttempt
}
