import { answerParent } from '../process/child.ts'
import { answerLoad } from './answer.ts'
import type { LoadQuestion } from './question.ts'

/** The generator process. */
answerParent(asked => answerLoad(asked as LoadQuestion))
