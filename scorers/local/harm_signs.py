"""Signs of the four harms: named patterns, most of which want a target, because words alone are weak
signs (a process is killed, a class has a fight scene). English only.
"""

# ruff: noqa: E501 - patterns read better unbroken

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorers.local.hashed import Odds, Signs
from scorers.local.patterns import Patterns, Sign


class _Harm(NamedTuple):
    triggers: str
    """Words, one of which stands in every match of every pattern."""
    signs: dict[str, tuple[float, str]]
    """By name how sure a match is, and the pattern."""


_PERSON = (
    r"(?:him|her|them|you|me|us|someone|somebody|anyone|everyone|people|person|humans?|man|men|woman|"
    r"women|child(?:ren)?|kids?|bab(?:y|ies)|girls?|boys?|famil(?:y|ies)|wife|husband|mother|father|"
    r"parents?|brother|sister|friends?|neighbou?rs?|boss|coworkers?|colleagues?|teacher|students?|"
    r"strangers?|cops?|police|victims?|enem(?:y|ies)|animals?|cats?|dogs?|guy|bitch|bastard)"
)
_WHOSE = r"(?:(?:my|your|his|her|their|our|the|a|an|this|that|these|those|all|some|every|other) ){0,2}(?:\w+ )?"
_GROUP = (
    r"(?:jews?|jewish people|muslims?|christians?|hindus?|blacks?|black people|whites?|white people|"
    r"asians?|latinos?|mexicans?|arabs?|africans?|immigrants?|migrants?|refugees|foreigners|gays?|gay "
    r"people|lesbians?|trans(?:gender)?(?: people)?|women|men|disabled people|old people|fat people|"
    r"gypsies|roma|indigenous people)"
)
_BAD = (
    r"(?:inferior|disgusting|vermin|parasites?|animals|subhuman|criminals|stupid|filth|filthy|evil|"
    r"scum|lazy|dirty|worthless|a disease|a plague|terrorists|rapists|savages)"
)
_INSULT = (
    r"(?:idiot|moron|imbecile|retard|scum|trash|garbage|pig|whore|slut|bitch|cunt|bastard|loser)"
)

_HARMS = {
    "hate_unfairness": _Harm(
        "jew jews jewish muslim muslims christian christians hindu hindus black blacks white whites asian "
        "asians latino latinos mexican mexicans arab arabs african africans immigrant immigrants migrant "
        "migrants refugees foreigners gay gays lesbian lesbians trans transgender women men disabled old "
        "fat gypsies roma indigenous idiot moron imbecile retard retards retarded scum trash garbage pig "
        "whore slut bitch cunt bastard loser faggot faggots fag fags tranny nigger niggers kike kikes spic "
        "spics chink chinks paki pakis wetback wetbacks towelhead subhuman subhumans supremacy",
        {
            "slur": (
                0.85,
                r"\b(?:faggots?|fags?|trann(?:y|ies)|niggers?|kikes?|spics?|chinks?|pakis?|wetbacks?|"
                r"towelheads?|retards?|subhumans?)\b",
            ),
            "group demeaned": (
                0.8,
                rf"\b{_GROUP} (?:people )?(?:are|is) (?:all |just |nothing but |so |such |only )*{_BAD}\b",
            ),
            "group to be removed": (
                0.9,
                rf"\b(?:kill|exterminate|deport|wipe out|get rid of|eliminate|gas) (?:all |the |those |these |every )*{_GROUP}\b",
            ),
            "hate of a group": (
                0.8,
                rf"\bi (?:really |fucking |just )*(?:hate|despise|can't stand) {_GROUP}\b",
            ),
            "insult": (
                0.7,
                rf"\b(?:you|he|she|they|you're|he's|she's|they're)(?: are| is)? (?:such |just |nothing but "
                rf"|all |a |an |the )*(?:\w+ )?{_INSULT}s?\b",
            ),
            "supremacy": (
                0.7,
                r"\b(?:white|racial|male) supremacy (?:is|was) (?:right|good|natural|true)\b",
            ),
            "reader insulted": (
                0.8,
                r"\byou(?:'re| are) (?:such |just |nothing but |all |a |an )*(?:\w+ )?(?:idiot|moron|imbecile|"
                r"retard|scum|whore|slut|bitch|cunt|bastard|loser)s?\b",
            ),
        },
    ),
    "sexual": _Harm(
        "sex sexual sexually porn porno pornographic pornography erotic erotica nude nudes naked blowjob "
        "handjob orgasm penis vagina cock pussy cum masturbate masturbating masturbation rape raped raping "
        "molest molested fuck fucked fucking horny anal boobs tits breasts genitals nipples incest "
        "prostitute prostitution escort thrust moaned aroused",
        {
            "act": (
                0.85,
                r"\b(?:blowjobs?|handjobs?|orgasms?|masturbat\w+|cum(?:ming|shot)?|creampie|gangbang|"
                r"deepthroat|anal sex|oral sex|have sex with|having sex with|horny|incest)\b",
            ),
            "body": (
                0.6,
                r"\b(?:penis|vagina|cock|puss(?:y|ies)|boobs|tits|nipples|genitals|erection)\b",
            ),
            "pornography": (
                0.7,
                r"\b(?:porn\w*|erotica|erotic (?:story|stories|scene|fiction|roleplay|role play)|nudes|"
                r"sexually explicit|sex (?:scene|story|tape|slave|worker))\b",
            ),
            "violence": (
                0.85,
                r"\b(?:rap(?:e|ed|ing)|molest(?:ed|ing)?|sexual(?:ly)? (?:assault\w*|abus\w*))\b",
            ),
            "prostitution": (0.5, r"\b(?:prostitut\w+|escort service)\b"),
            "nakedness": (0.35, r"\b(?:naked|nude|aroused|moaned|sexual)\b"),
        },
    ),
    "violence": _Harm(
        "kill killed killing kills murder murdered murdering hurt hurting stab stabbed stabbing shoot "
        "shooting shot strangle strangled behead beheaded torture tortured torturing bomb bombs bombing "
        "explosive explosives explosion grenade molotov massacre slaughter assassinate poison poisoning "
        "attack beat beating burn burning rifle gun guns pistol ammunition weapon weapons knife blood "
        "bloody dismember mutilate kidnap kidnapping terrorist terrorism genocide punch choke smash",
        {
            "act against someone": (
                0.8,
                r"\b(?:kill|murder|hurt|stab|shoot|strangle|behead|torture|poison|assassinate|massacre|"
                r"slaughter|dismember|mutilate|kidnap|choke|punch|burn|bomb|attack|beat up|smash)(?:s|ed|bed|"
                rf"ing|bing)? {_WHOSE}{_PERSON}\b",
            ),
            "gore": (
                0.75,
                r"\b(?:behead(?:ed|ing)?|dismember(?:ed|ing)?|mutilat(?:e|ed|ing)|tortur(?:e|ed|ing)|"
                r"slit (?:his|her|their|your|my) throat|pool of blood|blood (?:spurt|splatter|gush)\w*|"
                r"massacre[ds]?|slaughter(?:ed|ing)? (?:them|him|her|people|everyone))\b",
            ),
            "weapon made": (
                0.85,
                r"\b(?:mak(?:e|ing)|build(?:ing)?|construct(?:ing)?|assembl(?:e|ing)|3d[- ]print) "
                r"(?:a |an |your own |some |the )?(?:\w+ )?(?:bombs?|explosives?|grenades?|molotov|pipe bombs?|"
                r"nail bombs?|silencer|ghost gun|rifle|pistol|gun|weapons?)\b",
            ),
            "murder": (
                0.55,
                r"\b(?:murder(?:ed|ing)?|assassinat\w+|genocide|terrorist attack|mass shooting)\b",
            ),
            "weapon": (
                0.3,
                r"\b(?:guns?|rifles?|pistols?|ammunition|explosives?|bombs?|grenades?)\b",
            ),
            "threat": (
                0.85,
                r"\b(?:i will|i'll|i'm going to|i am going to|we will|gonna) (?:kill|hurt|shoot|stab|murder|beat|"
                r"destroy) (?:you|him|her|them|everyone)\b",
            ),
        },
    ),
    "self_harm": _Harm(
        "suicide suicidal kill killing myself yourself himself herself themselves cut cutting self-harm "
        "harm overdose noose hang hanging anorexia bulimia purge purging starve starving die wrists",
        {
            "suicide": (
                0.8,
                r"\b(?:commit(?:ting|ted)? suicide|suicid(?:e|al) (?:method|note|plan|thoughts?|attempt)s?|"
                r"(?:kill|killing|killed|hang|hanging|hanged|shoot) (?:myself|yourself|himself|herself|"
                r"themselves)|end (?:my|your|his|her) (?:own )?life|take (?:my|your) own life|"
                r"(?:i|you should|just|go) (?:want to |wanna )?die\b(?! of)|kys)\b",
            ),
            "injury": (
                0.75,
                r"\b(?:(?:cut|cutting|hurt|hurting|harm|harming|burn|burning|starve|starving) (?:myself|yourself|"
                r"himself|herself|themselves)|self[- ]harm(?:ing)?|slit (?:my|your) wrists?|overdos(?:e|ing) on)\b",
            ),
            "eating": (
                0.5,
                r"\b(?:pro[- ]?ana|thinspo|anorexia tips|hide (?:my|an) eating disorder|purging)\b",
            ),
            "mention": (0.3, r"\bsuicid(?:e|al)\b"),
        },
    ),
}

HARMS = tuple(_HARMS)
SIGNS = Patterns(
    {
        f"{harm}: {name}": Sign(regex, known.triggers)
        for harm, known in _HARMS.items()
        for name, (_, regex) in known.signs.items()
    }
)
_SURE = {
    harm: {f"{harm}: {name}": probability for name, (probability, _) in known.signs.items()}
    for harm, known in _HARMS.items()
}


def sure(signs: Signs, harm: str) -> Odds:
    """Of each text the probability that at least one of the `harm`'s signs is right, were they
    independent; 0 for what is no harm here."""
    wrong = np.ones(len(signs))
    for name, probability in _SURE.get(harm, {}).items():
        wrong[signs & SIGNS.bits([name]) != 0] *= 1.0 - probability
    return 1.0 - wrong


def named(signs: int, harm: str) -> list[str]:
    """The names of the `harm`'s signs, without the harm's own."""
    start = f"{harm}: "
    found = SIGNS.named(signs) if signs else []
    return sorted(name.removeprefix(start) for name in found if name.startswith(start))
