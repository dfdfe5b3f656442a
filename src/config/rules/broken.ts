/** A setting that the schema allows and that still cannot mean what it says. */
export type ConfigPath = readonly (string | number)[]

type Broken = {
  /** The way to the setting. */
  at: ConfigPath
  expected: string
  /** What came, where showing the setting's value would not say it. Never a secret. */
  got?: string
}

export type Rule = Generator<Broken, void>
