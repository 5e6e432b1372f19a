import type { Pace } from './fault-run.ts'

/** Some rounds within half a minute. */
export const slicePace: Pace = {
  steps: [8, 14],
  pauseMs: [30, 300],
  // A reload mends what was followed wrongly: these rounds are the sharp ones. They come
  // first, because each loss of a watch doubles the waiting for the next.
  natural: round => round < 3,
  mood: round => (round < 3 ? 'mild' : 'rough'),
  special: round => (['none', 'swap', 'cut'] as const)[round] ?? 'any',
  naturalBoundMs: 20_000,
  // Ten seconds are how long the end of a streaming list is waited for that never comes.
  reloadBoundMs: 15_000,
}

/** Rounds of about ten seconds. */
export const longPace: Pace = {
  steps: [20, 60],
  pauseMs: [20, 400],
  natural: round => round % 2 === 0,
  mood: round =>
    (['mild', 'rough', 'gentle', 'rough', 'mild', 'rough', 'rough'] as const)[
      round % 7
    ] ?? 'rough',
  special: round => (round % 7 === 0 ? 'cut' : 'any'),
  // A silent watch is cut after 70 s; then the next attempt comes within 30 s.
  naturalBoundMs: 115_000,
  reloadBoundMs: 20_000,
}
