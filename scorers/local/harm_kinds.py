"""Kinds of words, and what two of them say in one sentence: a group and a hostile word, a request
and a crime, a weapon and a game. The harm models weigh these beside the words themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from scorers.joined import Joined
from scorers.local.hashed import Signs
from scorers.local.terms import joined_terms

_KINDS = {
    "group": """
        jew jews jewish muslim muslims islam islamic christian christians hindu hindus sikh sikhs
        black blacks white whites asian asians latino latinos latina latinas hispanic mexican
        mexicans arab arabs african africans chinese indian indians pakistani pakistanis immigrant
        immigrants migrant migrants refugee refugees foreigner foreigners gay gays lesbian lesbians
        homosexual homosexuals bisexual trans transgender transsexual queer women woman female
        females girls men disabled disability disabilities autistic elderly fat gypsy gypsies roma
        romani indigenous native aboriginal minority minorities race races religion nationality
    """,
    "hostile": """
        disgusting disgust inferior vermin parasite parasites subhuman subhumans animals scum filth
        filthy dirty worthless useless stupid dumb idiots idiot moron morons lazy evil savages
        savage plague disease cancer trash garbage rats cockroaches pest pests hate hates hated
        despise loathe detest abomination freaks freak ugly weak criminals rapists terrorists
        thieves unworthy pathetic shame ashamed disgrace repulsive revolting hideous sick horrible
        awful terrible worst monsters monster greedy corrupt dangerous threat ruin ruining ruined
        destroying invading infest infested infestation incapable unfit belong gross nasty vile foul
        rotten cruel sickening appalling despicable vicious ruthless dishonest untrustworthy
        uncivilised uncivilized uneducated ignorant incompetent unintelligent immoral perverted
        perverse deviant deviants abnormal sinful unnatural leech leeches rodents insects bugs apes
        ape monkeys monkey swine beasts beast demons devils degenerate degenerates abominations
        burden invaders menace predators liars thugs cowards brainless retards filthy fear scare
        scared scary contempt ridiculous inhuman
    """,
    "warm": """
        love loves loved loving adore respect respects admire great wonderful beautiful amazing
        lovely proud pride equal equality equally welcome celebrate support
        supports friends friendly kind nice thank thanks appreciate smart brilliant talented happy
        rights protect protects help helpful important
    """,
    "negation": """
        no not never none nobody nothing neither nor cannot can't don't doesn't isn't aren't won't
        shouldn't wasn't weren't without stop against
    """,
    "sexual": """
        sex sexual sexually porn porno pornography erotic erotica nude nudes naked blowjob handjob
        orgasm orgasms penis vagina cock cocks pussy cum cumming masturbate masturbating
        masturbation horny anal boobs tits breasts breast genitals nipples nipple incest prostitute
        prostitutes prostitution escort aroused arousal seduce seductive lust fetish bdsm kinky
        dominatrix threesome virgin moan moaned moaning thrust thrusting lingerie erection clit
        dildo hentai hooker slut sluts whore whores fuck fucked fucking fucks dick dicks
    """,
    "profane": """
        fuck fucked fucking fucks fucker fuckers motherfucker motherfucking shit shitty bullshit
        bitch bitches ass asshole assholes cunt cunts dick dicks bastard bastards damn crap piss
        pissed suck sucks sucker whore slut slutty hoe hoes douche wanker twat prick
    """,
    "slur": """
        faggot faggots fag fags tranny trannies nigger niggers nigga niggas kike kikes spic spics
        chink chinks paki pakis wetback wetbacks towelhead raghead retard retards retarded dyke
        dykes gook gooks coon coons beaner beaners sandnigger shemale tards negro negroes cripple
        cripples mongoloid goyim
    """,
    "insult": """
        idiot idiots moron morons imbecile stupid dumb dumbass loser losers scum trash garbage pig
        pigs bitch cunt bastard clown coward liar fool fools ugly pathetic worthless jerk creep
        freak disgusting
    """,
    "kill": """
        kill killed killing kills murder murdered murdering murders slaughter slaughtered massacre
        behead beheaded execute executed exterminate exterminated eradicate assassinate
        assassinated assassination strangle strangled lynch lynched hang hanged gas gassed shoot
        shot shooting stab stabbed stabbing poison poisoned poisoning dead death die dies died
        corpse corpses genocide destroy destroyed
    """,
    "hurt": """
        hurt hurts hurting beat beaten beating punch punched kick kicked slap slapped choke choked
        smash smashed torture tortured torturing attack attacked attacking assault assaulted
        assaulting abuse abused abusing burn burned burning break rape raped raping rapes molest
        molested kidnap kidnapped kidnapping stalk stalking bully bullying harass harassing
        intimidate threaten threatening blood bloody gore wound wounds injure injured maim
    """,
    "weapon": """
        bomb bombs bombing explosive explosives explosion explosions grenade grenades molotov gun
        guns rifle rifles pistol pistols firearm firearms ammunition ammo weapon weapons knife
        knives silencer napalm dynamite detonate detonator shotgun sniper missile machete bullet
        bullets tnt arson arsenal
    """,
    "drug": """
        drug drugs meth methamphetamine cocaine heroin fentanyl lsd mdma ecstasy opioid opioids
        opium marijuana cannabis weed crack ketamine overdose pills steroids narcotics dealer
        dealers psilocybin
    """,
    "crime": """
        steal steals stealing stolen rob robbing robbery burglary shoplift shoplifting smuggle
        smuggling smuggled traffic trafficking launder laundering counterfeit forge forging forged
        fake fraud fraudulent defraud scam scams scamming phishing phish hack hacks hacking hacked
        hacker ddos malware ransomware virus keylogger spyware exploit exploits blackmail extort
        extortion bribe bribing bribery embezzle piracy pirated crack bypass evade evading evasion
        illegal illegally unlawful crime crimes criminal undetected caught untraceable launderer
        doxx doxxing impersonate plagiarize vandalize sabotage poach tamper insider
    """,
    "oneself": """
        myself yourself himself herself themselves suicide suicidal self wrists overdose noose
        anorexia bulimia purge purging starve starving cutting
    """,
    "false": """
        fake false hoax misinformation disinformation propaganda conspiracy conspiracies denial deny
        denying myth myths lies lie lying slander defame defamatory defamation rigged
    """,
    "person": """
        him her them me us someone somebody anyone everyone people person human humans man child
        children kid kids baby babies girl boy family wife husband girlfriend boyfriend mother mom
        father dad parents brother sister friend neighbor neighbour boss coworker colleague teacher
        student students stranger strangers cop cops police president victim victims guy lady
    """,
    "reader": "you you're your yours yourself u ur",
    "speaker": "i i'm i'll i'd i've my me we we're our gonna",
    "asked": """
        how ways way steps step guide tutorial instructions instruct method methods teach tell
        explain show give write create make develop design generate provide list describe
        step-by-step plan script draft compose build help
    """,
    "made": """
        make making build building construct constructing assemble produce producing manufacture
        create creating buy buying purchase obtain get sell selling ship import grow
    """,
    "prevention": """
        prevent preventing prevention avoid avoiding protect protecting protection safe safely
        safety stop stopping detect detecting report reporting reduce treat treatment recover
        recovery therapist therapy counselor hotline help support awareness defend defense survive
        victims research study studies education educational teach history historical
    """,
    "machine": """
        process processes python linux unix program programs code function thread threads server
        command terminal database script file files computer windows software app game games
        gaming minecraft battlefield fortnite dota lol counter-strike level boss player players npc
        character characters movie film novel book story song play fictional fiction scene video
        cake beer balloon lights light time weeds plant plants mosquitoes bacteria germs virus
        cells tumor stand drinks bar audience joke exam
    """,
    "definition": """
        what who when where why definition define defined meaning mean means term phrase word words
        difference called history did was were
    """,
    "said": """
        say says said saying claim claims claiming tell telling tells think thinks believe believes
        write writes call calls calling wrong lie lies unacceptable racist racism hateful bigot
        bigots ashamed shame anyone nobody whoever stereotype
    """,
    "quoted": '"',
    "occupation": """
        bankers landlords politicians politician capitalists artists teachers lawyers managers fans
        drivers players workers bosses ceos lobbyists referees salesmen
    """,
    "why": "why",
    "ought": "should ought must",
    "whose": "my his her",
    "fact": """
        address phone number password medical record bank private social security salary where live
        lives
    """,
    "unfair": """
        should shouldn't better worse less more superior inferior allowed ban banned deport
        deported forbid exclude exclusion deny denied only all every always typical typically
        stereotype stereotypes discriminate discrimination racist racism sexist sexism homophobic
        homophobia supremacy hateful prejudice bigot bigots
    """,
}

_BIT = {kind: 1 << place for place, kind in enumerate(_KINDS)}
_BITS: dict[str, int] = {}
for _kind, _words in _KINDS.items():
    for _word in _words.split():
        _BITS[_word] = _BITS.get(_word, 0) | _BIT[_kind]

_AS_LETTERS = str.maketrans("013457", "oieast")
"""Digits that are written for letters."""

Has = Callable[..., bool]


def _bad(has: Has) -> bool:
    return has("hostile", "kill", "hurt", "slur", "insult", "profane")


_SAID: dict[str, Callable[[Has], bool]] = {
    "hate_unfairness: hostile to a group": lambda has: (
        has("group") and _bad(has) and not has("negation", "warm")
    ),
    "slur said": lambda has: has("slur"),
    "hate_unfairness: the reader insulted": lambda has: has("reader") and has("insult", "profane"),
    "hate_unfairness: group compared": lambda has: has("group") and has("unfair"),
    "sexual: word": lambda has: has("sexual"),
    "violence: weapon or drug": lambda has: has("weapon", "drug"),
    "violence: weapon or drug made": lambda has: (
        has("asked") and has("weapon", "drug") and has("made")
    ),
    "violence: hurting asked for": lambda has: (
        has("asked") and has("kill", "hurt") and has("person", "reader") and not has("machine")
    ),
    "violence: the speaker would hurt": lambda has: (
        has("speaker") and has("kill", "hurt") and has("person", "reader")
    ),
    "self_harm: hurting oneself": lambda has: has("oneself") and has("kill", "hurt"),
    "crime asked for": lambda has: has("asked") and has("crime") and not has("prevention"),
    "falsehood asked for": lambda has: has("asked") and has("false"),
    "profane": lambda has: has("profane"),
    "bad word without a group": lambda has: _bad(has) and not has("group"),
    "negated near a group": lambda has: has("group") and _bad(has) and has("negation"),
    "warm to a group": lambda has: has("group") and has("warm") and not _bad(has),
    "group named": lambda has: has("group") and not _bad(has),
    "prevention": lambda has: (
        has("prevention") and has("crime", "kill", "hurt", "weapon", "drug", "oneself")
    ),
    "machine or game": lambda has: has("machine") and has("kill", "hurt"),
    "said of a group": lambda has: has("group") and _bad(has) and has("said"),
    "said of a group by nobody": lambda has: (
        has("group") and _bad(has) and not has("negation", "warm", "said")
    ),
    "quoted of a group": lambda has: has("group") and _bad(has) and has("quoted"),
    "hostile to an occupation": lambda has: _bad(has) and has("occupation"),
    "no one hurt": lambda has: has("kill", "hurt") and not has("person", "group", "reader"),
    "hurting no one asked for": lambda has: (
        has("asked") and has("kill", "hurt") and not has("person", "group", "reader")
    ),
    "hurting someone's person asked for": lambda has: (
        has("asked") and has("kill", "hurt") and has("person") and has("whose")
    ),
    "asked what a group ought": lambda has: has("ought") and has("why") and has("group"),
    "asked what others ought": lambda has: has("ought") and has("why") and not has("group"),
    "someone's facts": lambda has: has("fact") and has("whose"),
    "profane to no one": lambda has: has("profane") and not has("group", "reader"),
    "negated of a group": lambda has: has("group") and has("negation") and not _bad(has),
    "killing of a group": lambda has: has("group") and has("kill") and not has("negation", "said"),
    "slur said by someone": lambda has: has("slur") and has("said"),
    "question of fact": lambda has: has("definition") and not has("asked"),
}
NAMES = tuple(_SAID)


def said(texts: Joined) -> Signs:
    """What each part of `joined_terms` says, the n-th bit being the n-th of `NAMES`.

    Use it as `texts.of(said)`.
    """
    terms = texts.of(joined_terms)
    kinds = terms.vocabulary.column(_bits_of, np.int64)[terms.words]
    if len(kinds):
        kinds = np.bitwise_or.reduceat(kinds, terms.starts)
    return np.array([_said_by(each) for each in kinds.tolist()], np.int64)


def _bits_of(word: str) -> int:
    return _BITS.get(word if word.isalpha() else word.translate(_AS_LETTERS), 0)


@lru_cache(maxsize=16_384)
def _said_by(bits: int) -> int:
    def has(*kinds: str) -> bool:
        return any(bits & _BIT[kind] for kind in kinds)

    return sum(1 << place for place, holds in enumerate(_SAID.values()) if holds(has))
