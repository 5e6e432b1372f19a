import { EPOLLET, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP } from '../constants.ts'

/** Events of a side, edge-triggered: nothing has to be switched on and off. */
export const quietEvents = EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET
export const allEvents = quietEvents | EPOLLOUT
